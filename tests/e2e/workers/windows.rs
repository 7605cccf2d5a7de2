//! The fullest window of all, in `n log n`: runs of worker processes have too many takes for a look at every pair.

/// Windows by the take with which they begin, while takes are added in the order of their answers: a segment tree.
pub(super) struct Windows {
    size: usize,
    nodes: Vec<Node>,
}

#[derive(Clone, Copy)]
struct Node {
    /// Takes among these.
    takes: f64,
    /// The most that a window reaches that begins with one of these: its takes, and the supply before it.
    most: f64,
}

const NONE: Node = Node { takes: 0.0, most: f64::NEG_INFINITY };

// === impl Windows ===

impl Windows {
    /// Windows that begin with one of `takes` takes, none of which has been added.
    pub(super) fn new(takes: usize) -> Self {
        let size = takes.next_power_of_two();
        Self { size, nodes: vec![NONE; 2 * size] }
    }

    /// Adds the take that was sent as number `place`, after `supply` tokens had come. The most that a window reaches that
    /// begins with this take or one before it, and ends with the answer of this one.
    pub(super) fn add(&mut self, place: usize, supply: f64) -> f64 {
        let mut node = self.size + place;
        self.nodes[node] = Node { takes: 1.0, most: supply + 1.0 };
        let mut most = supply + 1.0;
        while node > 1 {
            let (left, right) = (self.nodes[node & !1], self.nodes[node | 1]);
            // The takes on the right were sent later: they are in every window that begins on the left.
            most = if node & 1 == 1 { most.max(left.most + right.takes) } else { most + right.takes };
            node /= 2;
            let takes = left.takes + right.takes;
            self.nodes[node] = Node { takes, most: right.most.max(left.most + right.takes) };
        }
        most
    }
}
