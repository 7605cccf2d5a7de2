//! Figures, as short as they may be without saying more than they know.

/// The smallest, the middle and the largest of several rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) max: f64,
}

// === impl Spread ===

impl Spread {
    /// Of at least one figure.
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let middle = sorted.len() / 2;
        let median =
            if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
        Some(Self { min, median, max })
    }

    /// `median (min–max)`, or the one figure there is.
    pub(crate) fn text(self) -> String {
        let Self { min, median, max } = self;
        if min == max {
            short(median)
        } else {
            format!("{} ({}–{})", short(median), short(min), short(max))
        }
    }
}

/// Three digits that matter.
pub(crate) fn short(figure: f64) -> String {
    match figure.abs() {
        // Less than anything measured here can resolve.
        size if size < 0.005 => "0".to_owned(),
        size if size < 9.995 => format!("{figure:.2}"),
        size if size < 99.95 => format!("{figure:.1}"),
        _ => count(figure),
    }
}

/// A whole number, in groups of three.
pub(crate) fn count(figure: f64) -> String {
    let digits = format!("{:.0}", figure.abs());
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if figure < -0.5 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        assert_eq!(
            ["0", "0.42", "12.3", "1,234,567"].map(str::to_owned),
            [short(0.0001), short(0.4231), short(12.34), short(1_234_567.1)]
        );
        assert_eq!(count(-1_000.0), "-1,000");
    }

    #[test]
    fn the_median_lies_in_the_middle() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Some(Spread { min: 1.0, median: 2.0, max: 3.0 }));
        assert_eq!(Spread::of([4.0, 1.0]), Some(Spread { min: 1.0, median: 2.5, max: 4.0 }));
        assert_eq!(Spread::of([]), None);
    }
}
