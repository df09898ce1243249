//! The text of a scrape, in the format that every collector of Prometheus metrics reads.

use std::fmt::Write;

use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

/// Writes all metrics. The registry writes OpenMetrics, which not every reader knows: it names counters otherwise.
pub(super) fn encode(registry: &Registry) -> String {
    let mut open = String::new();
    text::encode(&mut open, registry).expect("writing into memory does not fail");
    classic(&open)
}

/// The classic text format: a counter is described by the name that its samples have, and neither units nor an end are told.
fn classic(open: &str) -> String {
    let mut classic = String::with_capacity(open.len() + 1_024);
    let mut help = None;
    for line in open.lines() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            help = described.split_once(' ');
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|typed| typed.split_once(' '))
        {
            let suffix = if kind == "counter" { "_total" } else { "" };
            if let Some((described, help)) = help.take().filter(|(described, _)| *described == name) {
                let _ = writeln!(classic, "# HELP {described}{suffix} {help}");
            }
            let _ = writeln!(classic, "# TYPE {name}{suffix} {kind}");
        } else if !line.starts_with('#') {
            classic.push_str(line);
            classic.push('\n');
        }
    }
    classic
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_described_by_the_name_of_their_samples() {
        let open = "# HELP a_b Bs.\n# TYPE a_b counter\na_b_total{c=\"# HELP\"} 1\n\
                    # HELP d Ds.\n# TYPE d gauge\n# UNIT d seconds\nd 2\n# EOF\n";
        let expected = "# HELP a_b_total Bs.\n# TYPE a_b_total counter\na_b_total{c=\"# HELP\"} 1\n\
                        # HELP d Ds.\n# TYPE d gauge\nd 2\n";
        assert_eq!(classic(open), expected);
    }
}
