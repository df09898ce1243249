//! The formats of everything that scripts splice, stated once: which fields follow each other, and how wide each is.
//!
//! A script names a place, `RECORD.fence` for the first byte of a field and `RECORD.fence_end` for its last, and gets the
//! number when its text is put together ([`crate::script`]). Places count from 1, as Lua does. What Rust reads and writes
//! goes by the same tables. All integers are big-endian. A field of width 0 is the last one, as long as what is left.

/// Fields that follow each other.
#[derive(Debug)]
pub(crate) struct Format {
    /// What scripts call it.
    pub(crate) name: &'static str,
    fields: &'static [(&'static str, usize)],
}

impl Format {
    /// The first place of a field, counted from 1. A field that does not exist fails to compile, in a constant.
    pub(crate) const fn at(&self, field: &str) -> usize {
        let (mut at, mut index) = (1, 0);
        while index < self.fields.len() {
            let (name, width) = self.fields[index];
            if is_same(name, field) {
                return at;
            }
            at += width;
            index += 1;
        }
        panic!("a format has no such field")
    }

    /// How many bytes come before a field.
    pub(crate) const fn before(&self, field: &str) -> usize {
        self.at(field) - 1
    }

    /// How many bytes all fields have together whose width is known.
    pub(crate) const fn width(&self) -> usize {
        let (mut width, mut index) = (0, 0);
        while index < self.fields.len() {
            width += self.fields[index].1;
            index += 1;
        }
        width
    }

    /// The place that a script means by a name: the first of a field, or the last of `<field>_end`.
    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        let field = |name: &str| self.fields.iter().find(|(field, _)| *field == name);
        match (field(name), name.strip_suffix("_end").and_then(field)) {
            (Some((name, _)), _) => Some(self.at(name)),
            (None, Some((name, width))) if *width > 0 => Some(self.before(name) + width),
            _ => None,
        }
    }
}

/// Whether two texts are equal, also where constants are made.
const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() != other.len() {
        return false;
    }
    let mut index = 0;
    while index < one.len() {
        if one[index] != other[index] {
            return false;
        }
        index += 1;
    }
    true
}

macro_rules! formats {
    ($($(#[doc = $doc:literal])* $name:ident { $($field:ident: $width:literal),* $(,)? })*) => {
        $($(#[doc = $doc])* pub(crate) const $name: Format =
            Format { name: stringify!($name), fields: &[$((stringify!($field), $width)),*] };)*

        /// All of them.
        pub(crate) const ALL: &[Format] = &[$($name),*];
    };
}

formats! {
    /// The record of a job in its long form: state as a digit; flags, `0` and 1 if it is asked to stop, 2 if its handler
    /// has begun, 4 if a reaper put it back and nothing has happened to it since, or if it came to its end from there, 8 if
    /// it has a unique key, 16 if it has a key that it takes turns by, 32 if it runs and that key does not count it; the reason as a letter, `-` for none. Expiry and finished are 0 for none. `length` is that of
    /// the content. After the content, once it was claimed, follows [`CLAIM`]. The record of a job with a unique key is
    /// stored with another first byte, [`KEYED_OFFSET`] more, which keeps out programs that would not free the key; that of one
    /// with a key that it takes turns by, whatever else it has, with one that is [`GATED_OFFSET`] more. A blocked job has this
    /// form from the beginning: a program from before jobs were held takes it for one that it does not know.
    RECORD {
        state: 1, flags: 1, reason: 1, attempt: 4, stalls: 4, ambiguous: 4, backoff: 8, fence: 8, due: 8, seq: 8,
        priority: 2, expiry: 8, enqueued: 8, finished: 8, payload: 4, length: 4, block: 4, content: 0,
    }

    /// A job that was never claimed. The form is `@` and what it has: 1 it is ready, 2 it expires, 4 it is due at another
    /// time than it was enqueued. After the priority come enqueued and expiry if it has them (8 each), then [`TAIL`].
    FRESH { form: 1, due: 8, seq: 8, priority: 2, more: 0 }

    /// A fresh job that is ready, without expiry, as most are: what [`FRESH`] comes to then.
    PLAIN { form: 1, due: 8, seq: 8, priority: 2, payload: 4, length: 4, block: 4, content: 0 }

    /// What was plain when it was claimed, in its first attempt: form `a`, `c` when its handler has begun. All jobs of a
    /// claim begin alike, so that one comparison tells state, fence and lease. The label follows the content.
    FIRST {
        form: 1, nonce: 8, lease: 16, claimed: 8, due: 8, seq: 8, priority: 2, payload: 4, length: 4, block: 4, content: 0,
    }

    /// A job that completed in that attempt, form `b`.
    DONE {
        form: 1, finished: 8, nonce: 8, lease: 16, claimed: 8, due: 8, seq: 8, priority: 2, payload: 4, length: 4, block: 4,
        content: 0,
    }

    /// What all records end with, before the claim.
    TAIL { payload: 4, length: 4, block: 4, content: 0 }

    /// The newest claim, after the content of a long record; places count from the end of the content.
    CLAIM { nonce: 8, lease: 16, claimed: 8, label: 0 }

    /// What the content begins with: see [`crate::row::content`].
    CONTENT { kind_length: 1, kind: 0 }

    /// What the content of a job with a unique key ends with; places count from before it. The key is held until the
    /// `s`tart, until the `e`nd, or for a `w`indow or a s`l`ot of so many micros. The key that a job takes turns by, if it has
    /// one, and the length of that (1) come before it, or at the end.
    UNIQUE { digest: 16, lifetime: 1, micros: 8 }

    /// Who holds a unique key, and from when on it is free; 0 if that is not known beforehand.
    HOLDER { id: 16, free: 8 }

    /// What jobs that are handed in have in common: `1` if the payload is above the queue's cap; due `n`ow, `a`fter or a`t`
    /// so many micros, or `h`eld; `e` if it expires after so many micros. If they have a key that they take turns by, [`GATE`]
    /// follows the kind; if they have a unique key, [`CONFLICT`] is the last.
    HEAD {
        is_large: 1, priority: 2, payload: 4, length: 4, due: 1, due_micros: 8, expires: 1, expires_micros: 8,
        kind_length: 1, kind: 0,
    }

    /// The key that jobs take turns by, after a `g`; places count from the end of the kind.
    GATE { mark: 1, length: 1, key: 0 }

    /// What happens where another job holds the key; places count from before it. The holder is `k`ept, or
    /// `r`eplaced, or `d`ebounced, or that with a `m`aximum of so many micros.
    CONFLICT { how: 1, wait: 8 }

    /// What outcomes have in common: the fence, how the record begins then, and what follows for each job: `0` and 1 delay
    /// in micros (8 bytes), 2 the rest of the attempt's record, 4 output; 8 if the output is above the cap, 16 if the attempt
    /// goes on, and there is no outcome.
    OUTCOME {
        fence: 8, nonce: 8, state: 1, flags: 1, reason: 1, attempt: 4, stalls: 4, ambiguous: 4, backoff: 8, follows: 1,
    }

    /// A fence as calls name it.
    FENCE { number: 8, nonce: 8 }

    /// A member of the orders of ready jobs: those of one score sort by their bytes, so by turn.
    TURN { due: 8, seq: 8, id: 16 }

    /// A member of the order of ready jobs behind a gate: as [`TURN`], then the kind, so that a claim reads no record of a kind
    /// that it is not asked for.
    BEHIND { due: 8, seq: 8, id: 16, kind: 0 }

    /// A member of the order of parked jobs of a kind, whose score is the form of the record: the turn, and the score that it
    /// had (signed).
    PARKED { turn: 32, score: 4 }

    /// A member of the order of permits that were spent of a rate: when they come back, and how many.
    SPENT { back: 8, jobs: 8 }

    /// What was spent of the rate of a key: how many permits are out, then [`SPENT`] for each instant at which some come back,
    /// the first one first. Of a bucket there is only the instant at which it is full.
    PERMITS { out: 8, back: 8, jobs: 8 }

    /// A member of the orders of scheduled and of ended jobs.
    PLACE { seq: 8, id: 16 }

    /// The record of an attempt: see [`crate::row::attempt`].
    ATTEMPT { attempt: 4, ended: 8, claimed: 8, label_length: 2, label: 0 }

    /// The record of a lease of the namespace: when it was opened, then label and queues as they were handed in.
    LEASE { opened: 8, rest: 0 }

    /// A report of progress: `1` if it is above the cap.
    REPORT { is_large: 1, report: 0 }

    /// A record that the queue remembers: when it is gone is 0 for one that stays. `length` is that of the value, which stands
    /// here or, if it is longer than [`INLINE_MAX`], apart.
    KEPT { version: 8, written: 8, expires: 8, length: 4, value: 0 }

    /// A change of a record: it expects `a`nything, `n`othing or this `v`ersion; it `p`uts a value that has this version then, or
    /// `r`emoves it; `e` if it is gone after so many micros.
    CHANGE { expect: 1, expected: 8, change: 1, version: 8, expires: 1, micros: 8 }

    /// What follows an attempt: `1` if the program refuses it, how many jobs for the attempt's own queue, how many records.
    FOLLOWING { is_refused: 1, jobs: 4, records: 4 }

    /// A call: its id, then for how many milliseconds it is remembered.
    CALL { id: 22, memory: 0 }
}

/// The longest payload that stands in the record of its job.
pub(crate) const INLINE_MAX: usize = 1024;

/// The form of a job in its first attempt, and when its handler has begun.
pub(crate) const FIRST_ATTEMPT: u8 = b'a';
pub(crate) const FIRST_BEGUN: u8 = b'c';

/// First bytes of later forms begin here; their lowest bits are the state.
pub(crate) const LATER_FORMS: u8 = 128;

/// How much more than the digit of its state the first byte of a job with a unique key is.
pub(crate) const KEYED_OFFSET: u8 = LATER_FORMS - b'0';

/// The first and the last form of a job with a unique key.
pub(crate) const KEYED: u8 = b'0' + KEYED_OFFSET;
pub(crate) const KEYED_END: u8 = b'6' + KEYED_OFFSET;

/// The same for a job with a key that it takes turns by. The lowest bits of these first bytes are the state, too.
pub(crate) const GATED_OFFSET: u8 = LATER_FORMS + 8 - b'0';
pub(crate) const GATED: u8 = b'0' + GATED_OFFSET;
pub(crate) const GATED_END: u8 = b'6' + GATED_OFFSET;

/// Forms of jobs with keys that are otherwise plain: [`PLAIN`], [`FIRST`] and [`DONE`] under other first bytes. These are
/// [`BRIEF`], 8 more with a unique key, 16 more with both sorts of keys, [`BRIEF_BEGUN`] more if the handler of the first attempt
/// has begun, [`BRIEF_UNCOUNTED`] more if it runs and its key does not count it, and the state.
pub(crate) const BRIEF: u8 = LATER_FORMS + 16;
pub(crate) const BRIEF_SORT: u8 = 8;
pub(crate) const BRIEF_BEGUN: u8 = 24;
pub(crate) const BRIEF_UNCOUNTED: u8 = 48;
pub(crate) const BRIEF_END: u8 = BRIEF + 2 * BRIEF_UNCOUNTED - 1;

/// Numbers that scripts name.
pub(crate) const NUMBERS: &[(&str, usize)] = &[
    // States as the first byte of a record; what is below running waits, what is above has ended.
    ("STATE.blocked", b'0' as usize),
    ("STATE.scheduled", b'1' as usize),
    ("STATE.ready", b'2' as usize),
    ("STATE.running", b'3' as usize),
    ("STATE.completed", b'4' as usize),
    ("STATE.dead", b'5' as usize),
    ("STATE.cancelled", b'6' as usize),
    // Forms of short records: those of fresh jobs begin at `short`; a plain one is `plain`.
    ("FORM.short", b'@' as usize),
    ("FORM.plain", b'A' as usize),
    ("FORM.fresh_end", b'G' as usize),
    ("FORM.first", FIRST_ATTEMPT as usize),
    ("FORM.done", b'b' as usize),
    ("FORM.begun", FIRST_BEGUN as usize),
    ("FORM.later", LATER_FORMS as usize),
    // Those of jobs with a unique key, and what they have above the digit of the state.
    ("FORM.keyed", KEYED as usize),
    ("FORM.keyed_end", KEYED_END as usize),
    ("FORM.keyed_offset", KEYED_OFFSET as usize),
    // The same of jobs with a key that they take turns by.
    ("FORM.gated", GATED as usize),
    ("FORM.gated_end", GATED_END as usize),
    ("FORM.gated_offset", GATED_OFFSET as usize),
    // Short forms of jobs with keys: the first and the last, how many there are of one sort; how much more the form of a handler
    // is that has begun, and that of a job which its key does not count.
    ("FORM.brief", BRIEF as usize),
    ("FORM.brief_end", BRIEF_END as usize),
    ("FORM.brief_sort", BRIEF_SORT as usize),
    ("FORM.brief_begun", BRIEF_BEGUN as usize),
    ("FORM.brief_uncounted", BRIEF_UNCOUNTED as usize),
    // Flags of a record of which none is set, and of one that a reaper put back; what a unique key adds to flags, and the least
    // that they are with a key of either sort; what a key adds that a job takes turns by, and the least that they are then.
    ("FLAGS.none", b'0' as usize),
    ("FLAGS.begun", 2),
    ("FLAGS.reaped", b'4' as usize),
    ("FLAGS.key", 8),
    ("FLAGS.keyed", b'8' as usize),
    ("FLAGS.gate", 16),
    ("FLAGS.gated", b'@' as usize),
    // What it adds that the key of a running job does not count it, and the least that flags are then.
    ("FLAGS.uncount", 32),
    ("FLAGS.uncounted", b'P' as usize),
    ("MAX.inline", INLINE_MAX),
    ("MAX.attempts", 50),
    ("MAX.block", 128),
    ("WIDTH.id", 16),
    ("WIDTH.instant", 8),
    ("WIDTH.nonce", 8),
    ("WIDTH.u32", 4),
    ("WIDTH.unique", UNIQUE.width()),
    // The newest rule for queues that this program knows.
    ("RULES.known", windlass_core::queue::RULES as usize),
    // The rule of queues whose jobs may have keys that they take turns by; what the core says of a claim there.
    ("RULES.keys", windlass_core::queue::RULE_OF_KEYS as usize),
    // How many times what is asked for limits must leave to be far.
    ("RULES.ample", windlass_core::store::AMPLE as usize),
    ("GATES.looked", windlass_core::queue::GATES_LOOKED_MAX),
    ("GATES.passed", windlass_core::queue::PASSED_MAX),
    ("GATES.cost", windlass_core::queue::TURN_COST as usize),
    ("GATES.weight", windlass_core::queue::WEIGHT_MAX as usize),
    // What the core says of aged priority: how many levels a claim looks at, and which bytes of its nonce say where it begins.
    ("LEVELS.looked", windlass_core::queue::LEVELS_LOOKED_MAX),
    ("NONCE.level", 5),
    ("NONCE.shift", 7),
    ("NONCE.shifts", 17),
];

/// Texts that scripts name, as Lua writes them.
pub(crate) const TEXTS: &[(&str, &str)] = &[
    // Keys that few scripts need, without what all keys of the queue begin with: who holds unique keys, which of them are held
    // for a time, and what was answered of a transfer (as in keys.rs).
    ("NAME.uniques", "'uniques'"),
    ("NAME.windows", "'windows'"),
    ("NAME.said", "'said:'"),
    // Gates of keys: those that are open and those that are closed, how many jobs of each key run, the ready jobs of one, what
    // was spent of the rate of each, and when all of that has come back.
    ("NAME.open", "'open'"),
    ("NAME.closed", "'closed'"),
    ("NAME.busy", "'busy'"),
    ("NAME.behind", "'behind:'"),
    ("NAME.permits", "'permits'"),
    ("NAME.permits_back", "'permits-back'"),
    // Records: by key, long values of theirs, their keys in order, and which of them are gone when.
    ("NAME.records", "'records'"),
    ("NAME.record_values", "'record-values'"),
    ("NAME.record_keys", "'record-keys'"),
    ("NAME.record_expiry", "'record-expiry'"),
    // What a transfer begins with that brings jobs.
    ("BYTES.enqueues", "'e'"),
    ("BYTES.zero4", r"'\0\0\0\0'"),
    ("BYTES.zero8", r"'\0\0\0\0\0\0\0\0'"),
    ("BYTES.one8", r"'\0\0\0\0\0\0\0\1'"),
    // What a record begins with that ended without a worker: state, flags, reason.
    ("BYTES.expired", "'50e'"),
    ("BYTES.requested", "'60r'"),
    // All counters of a job that begins anew.
    ("BYTES.no_counters", r"'\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'"),
    // What the long form of a job that was never claimed has after its state: flags, reason, counters, fence.
    ("BYTES.untouched", r"'0-\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'"),
    // The same without its flags.
    ("BYTES.unclaimed", r"'-\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'"),
    // What that of a first attempt has after its flags: reason, counters, fence.
    ("BYTES.first", r"'-\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1'"),
    // How the record of a job begins that completes then: state, flags, reason, counters.
    ("BYTES.completed_first", r"'40-\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_first_or_the_last_place_of_a_field() {
        assert_eq!((RECORD.place("state"), RECORD.place("state_end")), (Some(1), Some(1)));
        assert_eq!((RECORD.place("fence"), RECORD.place("fence_end")), (Some(24), Some(31)));
        assert_eq!((RECORD.place("content"), RECORD.place("content_end")), (Some(86), None));
        assert_eq!((HEAD.place("expires"), HEAD.place("kind_length_end")), (Some(21), Some(30)));
        assert_eq!((HEAD.place("nothing"), HEAD.width()), (None, 30));
    }

    /// Scripts splice a range of one into the other.
    #[test]
    fn ranges_that_formats_share_are_as_long_in_each() {
        let length = |format: &Format, from: &str, upto: &str| format.at(upto) - format.at(from);
        let same = |formats: &[&Format], from: &str, upto: &str| {
            assert!(
                formats.windows(2).all(|pair| length(pair[0], from, upto) == length(pair[1], from, upto))
            );
        };
        same(&[&RECORD, &PLAIN, &FIRST, &DONE, &TAIL], "payload", "content");
        same(&[&FRESH, &PLAIN, &FIRST, &DONE, &RECORD], "due", "priority");
        same(&[&FIRST, &DONE], "nonce", "content");
        same(&[&FIRST, &CLAIM], "nonce", "claimed");
        same(&[&RECORD, &OUTCOME], "state", "backoff");
        same(&[&RECORD, &HEAD], "payload", "length");
        same(&[&RECORD, &TURN], "due", "seq");
        assert_eq!(PARKED.before("score"), TURN.before("id") + 16);
        same(&[&TURN, &BEHIND], "due", "id");
        assert_eq!(BEHIND.before("kind"), TURN.width());
    }
}
