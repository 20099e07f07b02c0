//! Looks whether the transport still delivers.

/// Time after which a message under way, with nothing delivered, does not come, ns.
const STALLED_NS: i64 = 2_000_000_000;

/// Messages that this member has sent and not had back.
#[derive(Default)]
pub(super) struct Flow {
    under_way: u64,
    /// When something came last, or what is under way was begun, ns.
    since: i64,
}

impl Flow {
    /// The transport is a new one, or there is none.
    pub(super) fn anew(&mut self) {
        *self = Flow::default();
    }

    /// This member wants to send.
    pub(super) fn wanted(&mut self, idle: bool, now: i64) {
        if idle && self.under_way == 0 {
            self.since = now;
        }
    }

    /// The transport has taken a message.
    pub(super) fn sent(&mut self) {
        self.under_way += 1;
    }

    /// Something was delivered; one of this member's own messages, or a configuration. How long
    /// after what was before, ns.
    pub(super) fn came(&mut self, own: bool, configuration: bool, now: i64) -> i64 {
        let after = now.saturating_sub(std::mem::replace(&mut self.since, now));
        if configuration {
            self.under_way = 0;
        } else if own {
            self.under_way = self.under_way.saturating_sub(1);
        }
        after
    }

    /// For how long nothing has been delivered, though something is under way, ns.
    pub(super) fn stalled(&self, waits: bool, now: i64) -> Option<i64> {
        let since = now.saturating_sub(self.since);
        ((waits || self.under_way > 0) && since > STALLED_NS).then_some(since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_and_does_not_come_back_is_a_stall() {
        const S: i64 = 1_000_000_000;
        let mut flow = Flow::default();
        assert_eq!(flow.stalled(false, 100 * S), None, "nothing is under way");
        flow.wanted(true, 100 * S);
        flow.sent();
        assert_eq!(flow.stalled(false, 102 * S), None);
        assert_eq!(flow.stalled(false, 103 * S), Some(3 * S));
        // More does not hide it, and others' messages are a sign of life.
        flow.wanted(true, 103 * S);
        flow.sent();
        assert_eq!(flow.stalled(false, 103 * S), Some(3 * S));
        flow.came(false, false, 103 * S);
        assert_eq!(flow.stalled(false, 104 * S), None);
        flow.came(true, false, 104 * S);
        flow.came(true, false, 104 * S);
        assert_eq!(flow.stalled(false, 200 * S), None);
        // A transport that takes nothing.
        flow.wanted(true, 200 * S);
        assert_eq!(flow.stalled(true, 205 * S), Some(5 * S));
        flow.sent();
        flow.came(false, true, 206 * S);
        assert_eq!(flow.stalled(false, 300 * S), None, "what was under way may be lost");
    }
}
