// Also change: internal/trireme/rpc/fencing.py (which names the other languages' files).

//! Refuses calls of deposed leaders. An epoch numbers the leaders of one scheduler; those of different schedulers are not
//! compared.

use std::collections::{HashMap, VecDeque};

use tonic::metadata::MetadataMap;
use tonic::{Code, Status};

use crate::v1;

/// A plugin that many test clusters call remembers so many schedulers at most.
const MAX_SCHEDULERS: usize = 64;

pub(crate) const STALE_EPOCH: &str = "stale-epoch";
pub(crate) const CONFIG_MISMATCH: &str = "config-mismatch";

#[derive(Default)]
pub(crate) struct Epochs {
    highest: HashMap<String, u64>,
    order: VecDeque<String>,
}

impl Epochs {
    /// Takes note of a caller's epoch. 0 is a call that names no leader.
    pub(crate) fn admit(&mut self, fence: &v1::Fence) -> Result<(), Status> {
        if fence.epoch == 0 {
            return Ok(());
        }
        match self.highest.get_mut(&fence.scheduler_id) {
            Some(highest) if fence.epoch < *highest => return Err(stale(fence.epoch, *highest)),
            Some(highest) => *highest = fence.epoch,
            None => {
                tracing::info!(scheduler = fence.scheduler_id, epoch = fence.epoch, "called by a scheduler");
                self.highest.insert(fence.scheduler_id.clone(), fence.epoch);
                self.order.push_back(fence.scheduler_id.clone());
                if self.order.len() > MAX_SCHEDULERS {
                    if let Some(oldest) = self.order.pop_front() {
                        self.highest.remove(&oldest);
                    }
                }
            }
        }
        Ok(())
    }
}

pub(crate) fn stale(epoch: u64, highest: u64) -> Status {
    let text = format!(
        "epoch {epoch} is over: a leader of epoch {highest} has been seen; \
         restart this process if the cluster was restored from a backup"
    );
    refusal(STALE_EPOCH, text)
}

/// FAILED_PRECONDITION with the reason that callers act on.
pub(crate) fn refusal(reason: &'static str, text: String) -> Status {
    let mut metadata = MetadataMap::new();
    metadata.insert("trireme-reason", reason.parse().expect("a reason is ASCII"));
    Status::with_metadata(Code::FailedPrecondition, text, metadata)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A deposed leader that is answered places pods beside its successor; a new scheduler that is refused places none.
    #[test]
    fn epochs_of_one_scheduler_are_compared() {
        let mut epochs = Epochs::default();
        for (scheduler, epoch, admitted) in
            [("a", 9, true), ("a", 8, false), ("b", 3, true), ("a", 9, true), ("b", 2, false), ("a", 0, true)]
        {
            let fence = v1::Fence { scheduler_id: scheduler.into(), epoch, ..Default::default() };
            assert_eq!(epochs.admit(&fence).is_ok(), admitted, "{scheduler} {epoch}");
        }
    }

    /// A plugin that test clusters call for weeks must not grow with each of them.
    #[test]
    fn a_bounded_number_of_schedulers_is_remembered() {
        let mut epochs = Epochs::default();
        for number in 0..10 * MAX_SCHEDULERS {
            epochs.admit(&v1::Fence { scheduler_id: number.to_string(), epoch: 1, ..Default::default() }).unwrap();
        }
        assert_eq!((epochs.highest.len(), epochs.order.len()), (MAX_SCHEDULERS, MAX_SCHEDULERS));
    }
}
