//! Whether records read back, and whether what is not one is found out.

use windlass_core::NewJob;
use windlass_core::Options;
use windlass_core::outcome::Ending;
use windlass_core::retry::Policy;
use windlass_core::unique::Unique;

use super::*;

/// A record as the scripts would splice it.
fn packed(job: &NewJob, fence: u64, label: &str) -> Bytes {
    let counters =
        Counters { attempt: 3, stalls: 1, ambiguous: u32::MAX, backoff: Duration::from_micros(77) };
    let content = content::pack(job).unwrap();
    let mut record = BytesMut::new();
    put_start(&mut record, State::Running, Some(Reason::Stalled), &counters);
    record.put_u64(fence);
    record.put_u64(i64::MAX.unsigned_abs());
    record.put_u64(42);
    record.put_i16(job.priority);
    record.put_u64(0);
    record.put_u64(1_000);
    record.put_u64(2_000);
    record.put_u32(job.payload.len() as u32);
    record.put_u32(content.len() as u32);
    record.put_u32(9);
    assert_eq!(record.len(), format::RECORD.before("content"));
    record.put_slice(&content);
    if fence > 0 {
        record.put_u64(5);
        record.put_slice(&[7; 16]);
        record.put_u64(1_500);
        record.put_u16(label.len() as u16);
        record.put_slice(label.as_bytes());
    }
    record.freeze()
}

fn wild() -> NewJob {
    let options = Options::new()
        .priority(i16::MIN)
        .timeout(Duration::MAX)
        .max_stalls(0)
        .tag("b")
        .tag("a:b")
        .retry(Policy::linear(7, Duration::from_nanos(1)));
    NewJob::new("k".repeat(128), vec![0xff; INLINE_MAX], options).unwrap()
}

#[test]
fn a_record_reads_back() {
    for (job, fence) in [(NewJob::new("k", "", Options::new()).unwrap(), 0), (wild(), u64::MAX)] {
        let row = Row::unpack(packed(&job, fence, "höst"));
        assert_eq!(
            (row.state, row.reason, row.cancel_requested),
            (State::Running, Some(Reason::Stalled), false)
        );
        assert_eq!((row.fence, row.seq, row.priority), (fence, 42, job.priority));
        assert_eq!((row.due_at.as_micros(), row.expires_at), (i64::MAX, None));
        assert_eq!(row.finished_at, Some(Timestamp::from_micros(2_000)));
        assert_eq!(row.counters.ambiguous, u32::MAX);
        assert_eq!((&row.content.kind, row.content.payload.as_ref()), (&job.kind, Some(&job.payload)));
        assert_eq!(
            (&row.content.spec.retry, row.content.spec.stalls_max),
            (&job.spec.retry, job.spec.stalls_max)
        );
        assert_eq!(row.content.spec.timeout.is_some(), job.spec.timeout.is_some());
        assert_eq!(row.content.tags, job.tags);
        assert_eq!(row.claim.is_some(), fence > 0);
        assert_eq!(row.unreadable, None);
        assert!(row.claim.is_none_or(|claim| claim.worker() == "höst" && claim.nonce == 5));
    }
}

#[test]
fn a_record_with_a_key_reads_back_under_either_first_byte() {
    let span = Duration::from_micros(5);
    let keys = [Unique::key("k"), Unique::key("k").until_start(), Unique::key("k").for_window(span)];
    for key in keys.into_iter().chain([Unique::key("k").for_slot(span)]) {
        let job = NewJob::new("k", "p", Options::new().unique(key).tag("t")).unwrap();
        for first in [b'3', b'3' + KEYED_OFFSET] {
            let mut record = packed(&job, 1, "w").to_vec();
            (record[0], record[1]) = (first, b'8' + 2);
            let row = Row::unpack(record.clone().into());
            assert_eq!((row.state, row.has_begun, &row.unreadable), (State::Running, true, &None));
            assert_eq!((row.content.unique, &row.content.tags), (job.unique, &job.tags));
            assert_eq!(row.content.payload, Some(job.payload.clone()));
            let lifetime = record.len() - format::CLAIM.before("label") - 3 - 9;
            record[lifetime] = b'?';
            assert!(matches!(Row::unpack(record.into()).unreadable, Some(Unreadable::Broken(_))));
        }
    }
}

#[test]
fn a_record_with_a_gate_reads_back_under_either_first_byte() {
    for unique in [None, Some(Unique::key("k"))] {
        let options = Options::new().key("tenant:7").tag("t");
        let options = unique.into_iter().fold(options, Options::unique);
        let job = NewJob::new("k", "p", options).unwrap();
        let flags = b'@' + if job.unique.is_some() { 8 } else { 0 };
        for first in [b'3', b'3' + GATED_OFFSET] {
            let mut record = packed(&job, 1, "w").to_vec();
            (record[0], record[1]) = (first, flags);
            let row = Row::unpack(record.into());
            assert_eq!((row.state, &row.unreadable), (State::Running, &None));
            assert_eq!((&row.content.key, row.content.unique), (&job.key, job.unique));
            assert_eq!((&row.content.tags, row.content.payload), (&job.tags, Some(job.payload.clone())));
        }
    }
    let mut record = packed(&NewJob::new("k", "p", Options::new()).unwrap(), 1, "w").to_vec();
    record[1] = b'@';
    assert!(matches!(Row::unpack(record.into()).unreadable, Some(Unreadable::Broken(_))), "it has no key");
}

#[test]
fn a_blocked_job_has_first_bytes_that_older_programs_do_not_know() {
    let unique = || Unique::key("k");
    let sorts = [
        (48, b'0', Options::new()),
        (128, b'8', Options::new().unique(unique())),
        (136, b'@', Options::new().key("g")),
        (136, b'H', Options::new().key("g").unique(unique())),
    ];
    for (first, flags, options) in sorts {
        let job = NewJob::new("k", "p", options).unwrap();
        let mut record = packed(&job, 0, "").to_vec();
        (record[0], record[1]) = (first, flags);
        let row = Row::unpack(record.into());
        assert_eq!((row.state, &row.unreadable), (State::Blocked, &None));
        assert_eq!((&row.content.key, row.content.unique), (&job.key, job.unique));
    }
}

/// A record as a claim would splice it for the first time.
fn packed_first(job: &NewJob, label: &str, form: u8) -> Bytes {
    let content = content::pack(job).unwrap();
    let mut record = BytesMut::new();
    record.put_u8(form);
    record.put_u64(5);
    record.put_slice(&[7; 16]);
    record.put_u64(1_500);
    record.put_u64(1_000);
    record.put_u64(42);
    record.put_i16(job.priority);
    record.put_u32(job.payload.len() as u32);
    record.put_u32(content.len() as u32);
    record.put_u32(9);
    assert_eq!(record.len(), format::FIRST.before("content"));
    record.put_slice(&content);
    record.put_u16(label.len() as u16);
    record.put_slice(label.as_bytes());
    record.freeze()
}

#[test]
fn the_short_record_of_a_job_with_keys_reads_back() {
    let (gate, unique) = (Options::new().tag("t").key("gate"), || Unique::key("k"));
    let sorts = [(147, gate.clone()), (155, Options::new().unique(unique())), (163, gate.unique(unique()))];
    for (form, options) in sorts {
        let job = NewJob::new("mail.send", "payload", options).unwrap();
        for (form, has_begun) in [(form, false), (form + 24, true), (form + 48, false), (form + 72, true)] {
            let record = packed_first(&job, "höst", form);
            let row = Row::unpack(record.clone());
            assert_eq!((&row.unreadable, row.has_begun), (&None, has_begun));
            assert_eq!((row.state, &row.content.key), (State::Running, &job.key));
            assert_eq!(row.content.unique.is_some(), job.unique.is_some());
            assert_eq!(payload_length(&record), job.payload.len());
        }
    }
}

#[test]
fn the_short_record_of_a_first_attempt_reads_back() {
    let job = wild();
    let row = Row::unpack(packed_first(&job, "höst", FIRST_ATTEMPT));
    assert_eq!((&row.unreadable, row.has_begun), (&None, false));
    assert!(Row::unpack(packed_first(&job, "höst", FIRST_BEGUN)).has_begun);
    let counters = Counters { attempt: 1, stalls: 0, ambiguous: 0, backoff: Duration::ZERO };
    assert_eq!((row.state, row.reason, row.counters, row.fence), (State::Running, None, counters, 1));
    assert_eq!((row.due_at, row.seq, row.priority), (Timestamp::from_micros(1_000), 42, i16::MIN));
    assert_eq!((row.enqueued_at, row.expires_at, row.finished_at), (row.due_at, None, None));
    assert_eq!((&row.content.kind, row.content.payload.as_ref()), (&job.kind, Some(&job.payload)));
    assert_eq!(payload_length(&packed_first(&job, "w", FIRST_BEGUN)), job.payload.len());
    assert_eq!(payload_length(&packed(&job, 1, "w")), job.payload.len());
    let (lease, at) = (LeaseId::from_bytes([7; 16]), Timestamp::from_micros(1_500));
    assert_eq!(row.claim, Some(Claim { nonce: 5, lease, at, worker: "höst".into() }));
}

#[test]
fn no_part_of_a_record_is_a_record() {
    for whole in [packed(&wild(), 3, "w"), packed_first(&wild(), "w", FIRST_ATTEMPT)] {
        for length in 0..whole.len() {
            let row = Row::unpack(whole.slice(..length));
            assert!(
                matches!(row.unreadable, Some(Unreadable::Broken(_))),
                "{length} bytes of {}",
                whole.len()
            );
        }
    }
}

/// Whatever is wrong with it, a record that is whole tells its fence, and a job is settled by that.
#[test]
fn what_does_not_read_is_lost_by_its_fence() {
    let (queue, id) = (Name::new("q").unwrap(), JobId::new());
    let changed = |whole: &Bytes, place: usize, byte: u8| {
        let mut record = whole.to_vec();
        record[place] = byte;
        Row::unpack(record.into())
    };
    let job = NewJob::new("k", "pay", Options::new()).unwrap();
    let (long, first) = (packed(&job, 7, "w"), packed_first(&job, "w", FIRST_BEGUN));
    // Flags, reason, a byte of the kind, and the byte that says what else was handed in.
    let wrong = [(&long, 1, b'@'), (&long, 2, b'!'), (&long, 86, b' '), (&long, 90, 16), (&first, 68, 128)];
    for (whole, place, byte) in wrong {
        let row = changed(whole, place, byte);
        assert!(matches!(row.unreadable, Some(Unreadable::Broken(_))), "{place}");
        let lost = row.claimed(id, &queue, None, Caps::default()).unwrap_err().expect("its fence reads");
        assert_eq!(lost.fence, Fence { number: if whole == &long { 7 } else { 1 }, nonce: 5 }, "{place}");
        assert!(lost.unreadable.is_some());
    }
    for (form, state) in [(b'd', State::Blocked), (128 + 16 + 5, State::Dead), (255, State::Blocked)] {
        let row = changed(&long, 0, form);
        assert_eq!(
            (row.state, row.unreadable.clone()),
            (state, Some(Unreadable::Newer { form: form.into() }))
        );
        assert_eq!(row.lost(id, &queue), None);
    }
}

#[test]
fn a_long_payload_stands_apart_and_must_be_there() {
    let job = NewJob::new("k", vec![1; INLINE_MAX + 1], Options::new()).unwrap();
    let row = Row::unpack(packed(&job, 1, "w"));
    assert_eq!((&row.content.payload, &row.unreadable), (&None, &None));
    let queue = Name::new("q").unwrap();
    let claimed = row.clone().claimed(job.id, &queue, Some(job.payload.clone()), Caps::default()).unwrap();
    assert_eq!((claimed.payload, claimed.fence), (job.payload, Fence { number: 1, nonce: 5 }));
    assert!(row.clone().claimed(job.id, &queue, None, Caps::default()).is_err());
    assert!(row.claimed(job.id, &queue, Some(Bytes::new()), Caps::default()).is_err());
}

#[test]
fn every_reason_and_ending_has_its_own_letter() {
    let letters = Reason::ALL.map(reason_code);
    assert!((1..letters.len()).all(|place| !letters[..place].contains(&letters[place])));
    assert!(!letters.contains(&b'?') && !letters.contains(&b'-'));
    for ending in Ending::ALL {
        for error in [None, Some(""), Some("wrong")] {
            let mut record = BytesMut::new();
            record.put_u32(2);
            record.put_u64(20);
            record.put_u64(10);
            record.put_u16(1);
            record.put_slice(b"w");
            record.put_slice(&attempt::pack(ending, error));
            let attempts = attempt::unpack(4, record.freeze()).unwrap();
            let [attempt] = &attempts[..] else { panic!("one record") };
            assert_eq!((attempt.fence, attempt.number, attempt.worker.as_str()), (4, 2, "w"));
            assert_eq!((attempt.ending, attempt.error.as_deref()), (Some(ending), error));
            assert_eq!(
                attempt.ended_at.map(|at| at.since(attempt.started_at)),
                Some(Duration::from_micros(10))
            );
        }
    }
}

#[test]
fn what_scripts_count_with_is_exact() {
    assert_eq!(micros(Duration::MAX), 1 << 53);
    assert_eq!(micros(Duration::from_nanos(1)), 1);
    assert_eq!(instant_micros(Timestamp::from_micros(-1)), 0);
    assert_eq!(instant_micros(Timestamp::from_micros(i64::MAX)), 1 << 53);
}

#[test]
fn an_attempt_that_ended_late_has_two_records() {
    let mut late = BytesMut::new();
    late.put_u32(1);
    late.put_u64(30);
    late.put_slice(&attempt::pack(Ending::Failed, Some("late")));
    let mut record = BytesMut::new();
    record.put_u32(2);
    record.put_u64(20);
    record.put_u64(10);
    record.put_u16(1);
    record.put_slice(b"wL");
    record.put_u32(late.len() as u32);
    record.put_slice(&late);
    record.put_slice(&attempt::pack(Ending::Stalled, None));
    let record = record.freeze();
    let attempts = attempt::unpack(4, record.clone()).unwrap();
    let told: Vec<_> = attempts
        .iter()
        .map(|each| {
            (each.number, each.ended_at.unwrap().as_micros(), each.ending.unwrap(), each.error.as_deref())
        })
        .collect();
    assert_eq!(told, [(2, 20, Ending::Stalled, None), (1, 30, Ending::Failed, Some("late"))]);
    assert!((0..record.len()).all(|length| attempt::unpack(4, record.slice(..length)).is_none()));
}
