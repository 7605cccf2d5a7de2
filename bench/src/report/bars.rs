//! Bars in text.

/// Cells of the longest bar.
const LONGEST: f64 = 24.0;
/// A measurement, filled by so many eighths.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// A line for each row: its name, and a bar and a figure for each column. All bars are of one scale.
pub(crate) fn bars(header: &[String], rows: &[(String, Vec<f64>)]) -> String {
    let most = rows.iter().flat_map(|(_, figures)| figures).copied().fold(f64::MIN_POSITIVE, f64::max);
    let first = rows.iter().map(|(name, _)| name).chain(header.first());
    let width = first.map(|name| name.chars().count()).max().unwrap_or(0);
    let column = LONGEST as usize + 7;
    let mut lines = vec![String::new()];
    for (place, name) in header.iter().enumerate() {
        lines[0].push_str(&if place == 0 { format!("{name:<width$}") } else { format!("  {name:<column$}") });
    }
    for (name, figures) in rows {
        let bars = figures
            .iter()
            .map(|figure| format!("  {:<column$}", format!("{} {figure:.2}", bar(figure / most))));
        lines.push(format!("{name:>width$}{}", bars.collect::<String>()));
    }
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// A bar for a share of the longest.
fn bar(share: f64) -> String {
    let eighths = (share * LONGEST * 8.0).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_figures_are_large() {
        assert_eq!(bar(1.0).chars().count(), LONGEST as usize);
        assert_eq!(bar(0.5), "█".repeat(LONGEST as usize / 2));
        assert_eq!(bar(1.0 / (LONGEST * 8.0)), "▏");
        assert_eq!(bar(0.0), "");
    }

    #[test]
    fn names_and_bars_stand_below_each_other() {
        let header = ["÷ raw", "a", "b"].map(str::to_owned);
        let text = bars(&header, &[("1".to_owned(), vec![2.0, 1.0]), ("1,000".to_owned(), vec![0.0, 1.0])]);
        let half = "█".repeat(LONGEST as usize / 2);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], format!("÷ raw  {:<31}  b", "a"));
        assert_eq!(lines[1], format!("    1  {:<31}  {half} 1.00", format!("{half}{half} 2.00")));
        assert_eq!(lines[2], format!("1,000  {:<31}  {half} 1.00", " 0.00"));
    }
}
