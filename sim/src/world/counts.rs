//! The ingredients of a run, counted.

/// The ingredients of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Happenings of all kinds.
    pub happenings: u64,
    /// First takes that Redis carried out.
    pub first_takes: u64,
    /// Native takes of buckets at rest.
    pub takes_at_rest: u64,
    /// Corrections of buckets at rest.
    pub corrections: u64,
    /// Bare commands.
    pub decrements: u64,
    /// Settles.
    pub settles: u64,
    /// Reservations among them that were granted.
    pub reservations: u64,
    /// Steps of put-ins.
    pub put_ins: u64,
    /// Charges.
    pub charges: u64,
    /// Tokens spent from those in hand.
    pub spent_in_hand: u64,
    /// Tokens taken by bare commands of a bucket that had become full on the way.
    pub late: u64,
    /// Tokens that callers were told of.
    pub admitted: u64,
}

// === impl Counts ===

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.happenings += other.happenings;
        self.first_takes += other.first_takes;
        self.takes_at_rest += other.takes_at_rest;
        self.corrections += other.corrections;
        self.decrements += other.decrements;
        self.settles += other.settles;
        self.reservations += other.reservations;
        self.put_ins += other.put_ins;
        self.charges += other.charges;
        self.spent_in_hand += other.spent_in_hand;
        self.late += other.late;
        self.admitted += other.admitted;
    }
}
