//! What one interface receives, another one of the same machine sends: tc-mirred(8) by
//! tc-matchall(8).

use vink_kernel::Kernel;

use crate::{Error, NetworkConfig};
use vink_sys::netlink::Message;

/// Of linux/rtnetlink.h, linux/pkt_sched.h, linux/pkt_cls.h and linux/tc_act/tc_mirred.h.
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TC_H_INGRESS: u32 = 0xffff_fff1;
const INGRESS: u32 = 0xffff_0000;
const TCA_MATCHALL_ACT: u16 = 2;
const FIRST_ACTION: u16 = 1;
const TCA_ACT_KIND: u16 = 1;
const TCA_ACT_OPTIONS: u16 = 2;
const TCA_MIRRED_PARMS: u16 = 2;
const TC_ACT_STOLEN: u32 = 4;
const TCA_EGRESS_REDIR: u32 = 1;

impl NetworkConfig {
    /// From now on all packets that come in by `from` go out by `to`, as they are.
    pub(crate) fn redirect(&self, kernel: &mut Kernel, from: &str, to: &str) -> Result<(), Error> {
        let what = || format!("joining {from} with {to}");
        let [from, target] = [self.index(kernel, from)?, self.index(kernel, to)?];
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let queue = tcmsg(from, INGRESS, TC_H_INGRESS, 0);
        let message = Message::new(libc::RTM_NEWQDISC, flags, &queue).text(TCA_KIND, "ingress");
        self.request(kernel, message, what)?;
        // struct tc_mirred: index, capab, action, refcnt, bindcnt, eaction, ifindex.
        let action = [0, 0, TC_ACT_STOLEN, 0, 0, TCA_EGRESS_REDIR, target];
        let action = action.map(u32::to_ne_bytes).concat();
        let every = u32::from((libc::ETH_P_ALL as u16).to_be());
        let filter = tcmsg(from, 0, INGRESS, 1 << 16 | every);
        let message = Message::new(libc::RTM_NEWTFILTER, flags, &filter)
            .text(TCA_KIND, "matchall")
            .nest(TCA_OPTIONS, |m| {
                m.nest(TCA_MATCHALL_ACT, |m| {
                    m.nest(FIRST_ACTION, |m| {
                        m.text(TCA_ACT_KIND, "mirred")
                            .nest(TCA_ACT_OPTIONS, |m| m.attr(TCA_MIRRED_PARMS, &action))
                    })
                })
            });
        self.request(kernel, message, what)
    }
}

/// `struct tcmsg`.
fn tcmsg(index: u32, handle: u32, parent: u32, info: u32) -> [u8; 20] {
    let mut bytes = [0; 20];
    for (n, word) in [index, handle, parent, info].into_iter().enumerate() {
        bytes[4 + 4 * n..][..4].copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}
