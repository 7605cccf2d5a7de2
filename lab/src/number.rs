//! Figures as text, with no more digits than matter.

/// Three digits that matter, down to hundredths.
pub fn short(figure: f64) -> String {
    match figure.abs() {
        size if !size.is_finite() => "–".to_owned(),
        size if size < 0.005 => "0".to_owned(),
        size if size < 9.995 => format!("{figure:.2}"),
        size if size < 99.95 => format!("{figure:.1}"),
        _ => count(figure),
    }
}

/// Three digits that matter, down to thousandths: for figures where a hundredth is much.
pub fn fine(figure: f64) -> String {
    match figure.abs() {
        size if size < 0.000_5 => "0".to_owned(),
        size if size < 0.1 => format!("{figure:.3}"),
        _ => short(figure),
    }
}

/// A whole number, in groups of three.
pub fn count(figure: f64) -> String {
    let digits = format!("{:.0}", figure.abs());
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
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
        let shown = [0.000_1, 0.042, 0.423_1, 12.34, 1_234_567.1, f64::NAN];
        assert_eq!(shown.map(short), ["0", "0.04", "0.42", "12.3", "1,234,567", "–"]);
        assert_eq!(shown.map(fine), ["0", "0.042", "0.42", "12.3", "1,234,567", "–"]);
        assert_eq!(count(-1_000.0), "-1,000");
    }
}
