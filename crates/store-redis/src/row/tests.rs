//! Whether records read back, and whether what is not one is found out.

use windlass_core::NewJob;
use windlass_core::Options;
use windlass_core::outcome::Ending;
use windlass_core::retry::Policy;

use super::*;

/// A record as the scripts would splice it.
fn packed(job: &NewJob, fence: u64, label: &str) -> Bytes {
    let counters =
        Counters { attempt: 3, stalls: 1, ambiguous: u32::MAX, backoff: Duration::from_micros(77) };
    let v = spec::pack(job).unwrap();
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
    record.put_u32(v.len() as u32);
    record.put_u32(9);
    assert_eq!(record.len(), 85);
    record.put_slice(&v);
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
        let row = Row::unpack(packed(&job, fence, "höst")).unwrap();
        assert_eq!(
            (row.state, row.reason, row.cancel_requested),
            (State::Running, Some(Reason::Stalled), false)
        );
        assert_eq!((row.fence, row.seq, row.priority), (fence, 42, job.priority));
        assert_eq!((row.due_at.as_micros(), row.expires_at), (i64::MAX, None));
        assert_eq!(row.finished_at, Some(Timestamp::from_micros(2_000)));
        assert_eq!(row.counters.ambiguous, u32::MAX);
        assert_eq!((&row.spec.kind, row.spec.payload.as_ref()), (&job.kind, Some(&job.payload)));
        assert_eq!((&row.spec.retry, row.spec.stalls_max), (&job.retry, job.stalls_max));
        assert_eq!((row.spec.timeout.is_some(), &row.spec.tags), (job.timeout.is_some(), &job.tags));
        assert_eq!(row.claim.is_some(), fence > 0);
        assert!(row.claim.is_none_or(|claim| claim.worker() == "höst" && claim.nonce == 5));
    }
}

/// A record as a claim would splice it for the first time.
fn packed_first(job: &NewJob, label: &str) -> Bytes {
    let v = spec::pack(job).unwrap();
    let mut record = BytesMut::new();
    record.put_u8(FIRST_ATTEMPT);
    record.put_u64(5);
    record.put_slice(&[7; 16]);
    record.put_u64(1_500);
    record.put_u64(1_000);
    record.put_u64(42);
    record.put_i16(job.priority);
    record.put_u32(job.payload.len() as u32);
    record.put_u32(v.len() as u32);
    record.put_u32(9);
    record.put_slice(&v);
    record.put_u16(label.len() as u16);
    record.put_slice(label.as_bytes());
    record.freeze()
}

#[test]
fn the_short_record_of_a_first_attempt_reads_back() {
    let job = wild();
    let row = Row::unpack(packed_first(&job, "höst")).unwrap();
    let counters = Counters { attempt: 1, stalls: 0, ambiguous: 0, backoff: Duration::ZERO };
    assert_eq!((row.state, row.reason, row.counters, row.fence), (State::Running, None, counters, 1));
    assert_eq!((row.due_at, row.seq, row.priority), (Timestamp::from_micros(1_000), 42, i16::MIN));
    assert_eq!((row.enqueued_at, row.expires_at, row.finished_at), (row.due_at, None, None));
    assert_eq!((&row.spec.kind, row.spec.payload.as_ref()), (&job.kind, Some(&job.payload)));
    assert_eq!(payload_length(&packed_first(&job, "w")), job.payload.len());
    assert_eq!(payload_length(&packed(&job, 1, "w")), job.payload.len());
    let (lease, at) = (LeaseId::from_bytes([7; 16]), Timestamp::from_micros(1_500));
    assert_eq!(row.claim, Some(Claim { nonce: 5, lease, at, worker: "höst".into() }));
}

#[test]
fn no_part_of_a_record_is_a_record() {
    for whole in [packed(&wild(), 3, "w"), packed_first(&wild(), "w")] {
        for length in 0..whole.len() {
            assert!(Row::unpack(whole.slice(..length)).is_err(), "{length} bytes of {}", whole.len());
        }
    }
}

#[test]
fn a_long_payload_stands_apart_and_must_be_there() {
    let job = NewJob::new("k", vec![1; INLINE_MAX + 1], Options::new()).unwrap();
    let row = Row::unpack(packed(&job, 1, "w")).unwrap();
    assert_eq!(row.spec.payload, None);
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
            let attempt = attempt::unpack(4, record.freeze()).unwrap();
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
