//! Gathers what is said to each, so that one note says all of it.

use windlass_core::bell::{Named, Note, Word};

use super::To;

/// The most items that one note has: a server takes a few thousand bytes.
const ITEMS_MAX: usize = 24;

/// Words and to whom they go.
#[derive(Debug, Default)]
pub(super) struct Words(Vec<(To, Word)>);

impl Words {
    /// Adds a word: to one about the same matter, if it goes to the same process.
    pub(super) fn add(&mut self, to: To, word: Word) {
        match &word {
            Word::Work { work: Named::These(more), hops } => {
                let same = self.0.iter_mut().find_map(|(known, said)| match said {
                    Word::Work { work: Named::These(list), hops: said } if *known == to && said == hops => {
                        (list.len() + more.len() <= ITEMS_MAX).then_some(list)
                    }
                    _ => None,
                });
                if let Some(list) = same {
                    list.extend(more.iter().cloned());
                    return;
                }
            }
            Word::Cancel(Named::These(ids)) if ids.len() > ITEMS_MAX => {
                let parts = ids.chunks(ITEMS_MAX).map(|part| Word::Cancel(Named::These(part.to_vec())));
                self.0.extend(parts.map(|part| (to, part)));
                return;
            }
            _ => {}
        }
        self.0.push((to, word));
    }

    /// One note for each word.
    pub(super) fn into_notes(self, owner: u64) -> Vec<(To, Note)> {
        self.0.into_iter().map(|(to, word)| (to, Note { owner, word })).collect()
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::bell::Fresh;
    use windlass_core::{JobId, Name};

    use super::*;

    fn work(queue: u32, hops: u8) -> Word {
        let queue = Name::new(format!("{queue:0128}")).expect("a good name");
        Word::Work { work: Named::These(vec![Fresh { kind: Some(queue.clone()), queue, jobs: 1 }]), hops }
    }

    #[test]
    fn work_for_one_process_is_one_note_until_it_is_long() {
        let mut words = Words::default();
        for queue in 0..3 {
            words.add(To::Process(1), work(queue, 0));
            words.add(To::Process(2), work(queue, 0));
        }
        words.add(To::Process(1), work(3, 1));
        assert_eq!(words.into_notes(7).len(), 3);
        let mut words = Words::default();
        (0..100).for_each(|queue| words.add(To::Everyone, work(queue, 0)));
        words.add(To::Everyone, Word::Cancel(Named::These((0..64).map(|_| JobId::new()).collect())));
        let notes = words.into_notes(7);
        assert!(notes.len() < 12, "{}", notes.len());
        assert!(notes.iter().all(|(_, note)| note.to_string().len() < 8_000));
    }
}
