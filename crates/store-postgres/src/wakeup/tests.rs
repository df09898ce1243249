//! Wake-ups on real servers.

use super::*;

#[test]
fn a_note_survives_its_text() {
    let rings = Rings::about(Topic::Work).and(Rings::about(Topic::Finish));
    for note in [Note::Rings { owner: 7, rings }, Note::Test { nonce: u64::MAX }] {
        assert_eq!(Note::read(&note.to_string()), Some(note));
    }
    assert_eq!(Note::Rings { owner: 10, rings }.to_string(), "000000000000000a wf");
    for foreign in ["", "x", "0a", "0a x", "zz w"] {
        assert_eq!(Note::read(foreign), None, "{foreign:?}");
    }
}
