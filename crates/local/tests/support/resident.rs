//! What a test of memory looks at. Such a test has a process of its own.

/// The resident memory of this process, in kilobytes.
pub(crate) fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("it is in there");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number of kilobytes")
}
