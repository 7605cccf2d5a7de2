//! The older text format of Prometheus.

/// `openmetrics` in the older text format of Prometheus, in which the name of a counter ends in `_total` everywhere.
pub(crate) fn to_classic(openmetrics: &str) -> String {
    let mut out = String::with_capacity(openmetrics.len());
    let mut help: Option<(&str, &str)> = None;
    for line in openmetrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            let total = if kind == "counter" { "_total" } else { "" };
            if let Some((_, help)) = help.take() {
                out += &format!("# HELP {name}{total} {help}\n");
            }
            out += &format!("# TYPE {name}{total} {kind}\n");
        } else if !line.starts_with('#') {
            out += line;
            out.push('\n');
        }
    }
    out
}
