//! A page of sections that are measured one by one.

/// The beginning of a section.
const MARK: &str = "## ";

/// The page `old` with `new` in place of the sections of the same titles, in the order of `titles`, under `preface`.
pub(crate) fn replaced(preface: &str, old: &str, new: &[String], titles: &[&str]) -> String {
    let marked = format!("\n{MARK}");
    let kept: Vec<String> = old.split(&marked).skip(1).map(|section| format!("{MARK}{section}")).collect();
    let mut page = preface.to_owned();
    for title in titles {
        let first = format!("{MARK}{title}");
        let is_it = |section: &&String| section.lines().next() == Some(&first);
        if let Some(section) = new.iter().chain(&kept).find(is_it) {
            page.push_str(&format!("\n{}\n", section.trim_end()));
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    const TITLES: [&str; 3] = ["One", "Two", "Three"];

    fn page(preface: &str, old: &str, new: &[&str]) -> String {
        replaced(preface, old, &new.iter().map(|&text| text.to_owned()).collect::<Vec<_>>(), &TITLES)
    }

    #[test]
    fn what_is_not_measured_again_stays() {
        let first = page("# Page\n", "", &["## Three\n\n3\n", "## One\n\n1\n"]);
        assert_eq!(first, "# Page\n\n## One\n\n1\n\n## Three\n\n3\n");
        let second = page("# New\n", &first, &["## Two\n\n2\n", "## One\n\none\n"]);
        assert_eq!(second, "# New\n\n## One\n\none\n\n## Two\n\n2\n\n## Three\n\n3\n");
        assert_eq!(page("# New\n", &second, &[]), second);
    }

    #[test]
    fn what_is_no_curve_any_more_goes() {
        assert_eq!(page("# Page\n", "# Page\n\n## Four\n\n4\n", &[]), "# Page\n");
    }
}
