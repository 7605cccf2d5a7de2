//! Assignments of keys in files and tables: CSV, JSON with one object on each line, and rows of a database.

mod check;
mod errors;
mod row;
mod rows;
mod write;

pub(crate) use check::check_target;
#[cfg(feature = "sql")]
pub(crate) use row::Row;
pub(crate) use rows::Rows;
pub(crate) use write::write_rows;

#[cfg(test)]
mod tests {
    use topup_wire::{
        assigned_keys::AssignedKeys,
        limit::{Assignment, Plans, Target},
    };

    use super::{errors::RowErrors, *};

    fn read(text: &str) -> Result<AssignedKeys, RowErrors> {
        let plans = Plans::new(["gold".parse().unwrap()], []);
        let mut rows = Rows::new("user".parse().unwrap(), &plans, "line", 10);
        rows.read(text.as_bytes(), None).unwrap();
        rows.finish()
    }

    fn places(text: &str) -> Vec<String> {
        let errors = read(text).unwrap_err();
        assert_eq!(errors.count, errors.first.len());
        errors.first.iter().map(|(_, error)| error.split(':').next().unwrap().to_owned()).collect()
    }

    #[test]
    fn rows_are_read_as_they_were_written() {
        let odd = "a \"b\",\nc".to_owned();
        let until = Some(1_796_083_200_000_000);
        let gold = Assignment { target: "gold".parse().unwrap(), until };
        let all: AssignedKeys =
            [(odd, gold), ("acme".to_owned(), Assignment { target: Target::Deny, until: None })]
                .into_iter()
                .collect();
        for as_json in [false, true] {
            let mut out = Vec::new();
            write_rows(&mut out, all.iter(), as_json).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert_eq!(read(&text), Ok(all.clone()), "{text}");
            assert_eq!(read(&format!("\u{feff}{text}")), Ok(all.clone()), "{text}");
        }
        assert_eq!(read(""), Ok(AssignedKeys::default()));
        let bare = read("acme,gold\n\n other , exempt \n").unwrap();
        assert_eq!(bare.len(), 2);
    }

    #[test]
    fn an_end_is_an_instant_or_unix_seconds() {
        let same = "{\"key\": 7, \"plan\": \"gold\", \"until\": 1796083200}";
        for text in
            ["7,gold,1796083200", "7,gold,2026-12-01T00:00:00Z", "7,gold,2026-12-01T01:00:00+01:00", same]
        {
            let until = read(text).unwrap().of("7").unwrap().until;
            assert_eq!(until, Some(1_796_083_200_000_000), "{text}");
        }
        assert_eq!(
            read("{\"key\": \"a\", \"plan\": \"gold\", \"until\": null}").unwrap().of("a").unwrap().until,
            None
        );
        assert_eq!(places("a,gold,2026-12-01T00:00:00\nb,gold,99999999999"), ["line 1", "line 2"]);
    }

    #[test]
    fn every_wrong_row_is_named_with_its_line() {
        let text = "key,plan\nacme,gold\nacme,deny\n,gold\nx\nx,silver\ny,gold,tomorrow\nz,go ld\na,b,c,d\n";
        assert_eq!(places(text), [3, 4, 5, 6, 7, 8, 9].map(|line| format!("line {line}")));
        let text =
            "{\"key\": \"a\", \"plan\": \"gold\"}\n{\"key\": 7}\nnothing\n{\"key\": \"b\", \"plan\": \"x\"}";
        assert_eq!(places(text), ["line 2", "line 3", "line 4"]);
        assert!(read(text).unwrap_err().to_string().contains("line 4: limit user has no plan x"));
        let many: String = (0..50).map(|i| format!("{i},silver\n")).collect();
        let errors = read(&many).unwrap_err();
        assert_eq!(errors.to_string().lines().count(), 21);
        assert!(errors.in_one_line().ends_with("; and 47 more"), "{}", errors.in_one_line());
        let many: String = (0..12).map(|i| format!("{i},gold\n")).collect();
        assert!(read(&many).unwrap_err().to_string().contains("line 11: there are more than 10 rows"));
    }
}
