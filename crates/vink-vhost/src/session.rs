//! What a front-end has said by vhost-user: the guest's memory, its two queues, what was negotiated.
//!
//! The messages are the `vhost` crate's to read, and only the shape of one is checked there. See
//! <https://qemu-project.gitlab.io/qemu/interop/vhost-user.html>.

use std::fs::File;
use std::io::{self, Read, Write};

use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig,
    VhostUserSharedMsg, VhostUserSingleMemoryRegion, VhostUserVirtioFeatures,
    VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};
use vhost::VhostUserMemoryRegionBase;
use vink_port::{Poll, INPUT};
use vink_sys::rustix::fs::{fcntl_getfl, fcntl_setfl, OFlags};
use vm_memory::{
    Address, FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestRegionMmap,
    MmapRegion,
};

use crate::queue::{Broken, Manners, Place, Queue, MOST};

/// `VIRTIO_NET_F_*` and `VIRTIO_F_*`: what is left to be done for frames, and how queues are used.
mod feature {
    pub(super) const CSUM: u64 = 1 << 0;
    pub(super) const GUEST_CSUM: u64 = 1 << 1;
    pub(super) const GUEST_TSO4: u64 = 1 << 7;
    pub(super) const GUEST_TSO6: u64 = 1 << 8;
    pub(super) const GUEST_ECN: u64 = 1 << 9;
    pub(super) const HOST_TSO4: u64 = 1 << 11;
    pub(super) const HOST_TSO6: u64 = 1 << 12;
    pub(super) const HOST_ECN: u64 = 1 << 13;
    pub(super) const MRG_RXBUF: u64 = 1 << 15;
    pub(super) const ANY_LAYOUT: u64 = 1 << 27;
    pub(super) const INDIRECT_DESC: u64 = 1 << 28;
    pub(super) const EVENT_IDX: u64 = 1 << 29;
    pub(super) const VERSION_1: u64 = 1 << 32;
}

/// A guest that has all of these takes what has a checksum or segmentation of TCP left to be done.
const TAKES_LARGE: u64 =
    feature::GUEST_CSUM | feature::GUEST_TSO4 | feature::GUEST_TSO6 | feature::GUEST_ECN;

/// What is offered.
const OFFERED: u64 = TAKES_LARGE
    | feature::CSUM
    | feature::HOST_TSO4
    | feature::HOST_TSO6
    | feature::HOST_ECN
    | feature::MRG_RXBUF
    | feature::ANY_LAYOUT
    | feature::INDIRECT_DESC
    | feature::EVENT_IDX
    | feature::VERSION_1
    | VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits();

/// The queues of a virtio network device with one pair: what the guest receives, and what it sends.
pub(crate) const RECEIVES: usize = 0;
pub(crate) const SENDS: usize = 1;

/// What a front-end has said.
pub(crate) struct Session {
    /// What the guest has of what was offered.
    features: u64,
    memory: Option<Memory>,
    rings: [Ring; 2],
    /// The kicks of both rings.
    kicks: Poll,
    /// Why the last request was refused.
    pub(crate) why: Option<String>,
}

/// The guest's memory, and the addresses that its front-end has for it.
struct Memory {
    guest: GuestMemoryMmap,
    /// Their start at the front-end and in the guest, and their bytes.
    regions: Vec<(u64, GuestAddress, u64)>,
}

/// A queue, and how each side tells the other one of it.
#[derive(Default)]
struct Ring {
    size: u16,
    /// Descriptors, available ones, used ones: at the front-end.
    addresses: Option<[u64; 3]>,
    base: u16,
    is_enabled: bool,
    /// There from the kick on.
    queue: Option<Queue>,
    kick: Option<File>,
    call: Option<File>,
}

impl Ring {
    /// Interrupts the guest.
    fn call(&self) {
        if let Some(mut call) = self.call.as_ref() {
            // Without room so many calls wait that it will look.
            let _ = call.write(&1_u64.to_ne_bytes());
        }
    }
}

impl Session {
    pub(crate) fn new() -> io::Result<Session> {
        Ok(Session {
            features: 0,
            memory: None,
            rings: Default::default(),
            kicks: Poll::new()?,
            why: None,
        })
    }

    /// Readable when the guest has kicked.
    pub(crate) fn kicks(&self) -> &Poll {
        &self.kicks
    }

    /// Takes the kicks that have come.
    ///
    /// # Errors
    /// As read(2): it is nothing that a guest can kick.
    pub(crate) fn take_kicks(&mut self) -> io::Result<()> {
        for ring in &self.rings {
            let mut count = [0; 8];
            match ring.kick.as_ref().map(|mut kick| kick.read(&mut count)) {
                Some(Ok(0..8)) => return Err(io::ErrorKind::InvalidData.into()),
                Some(Err(error)) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether both queues are in use.
    pub(crate) fn is_running(&self) -> bool {
        let running = |ring: &Ring| ring.is_enabled && ring.queue.is_some();
        self.rings.iter().all(running)
    }

    /// The memory and a queue that is in use.
    pub(crate) fn queue(&mut self, ring: usize) -> Option<(&GuestMemoryMmap, &mut Queue)> {
        let is_running = self.is_running();
        let memory = self.memory.as_ref().filter(|_| is_running)?;
        Some((&memory.guest, self.rings[ring].queue.as_mut()?))
    }

    /// Tells the guest what was used, if it wants to be told.
    pub(crate) fn tell(&mut self, ring: usize) -> std::result::Result<(), Broken> {
        let Some((memory, queue)) = self.queue(ring) else {
            return Ok(());
        };
        if queue.is_to_be_told(memory)? {
            self.rings[ring].call();
        }
        Ok(())
    }

    /// Bytes of the header in front of a frame: `struct virtio_net_hdr`, and how many buffers the
    /// frame has.
    pub(crate) fn header(&self) -> usize {
        match self.features & (feature::VERSION_1 | feature::MRG_RXBUF) {
            0 => vink_port::HEADER,
            _ => vink_port::HEADER + 2,
        }
    }

    /// Whether a frame may be in several buffers.
    pub(crate) fn is_merging(&self) -> bool {
        self.features & feature::MRG_RXBUF != 0
    }

    /// Whether the guest takes frames for which something is left to be done.
    pub(crate) fn takes_large(&self) -> bool {
        self.features & TAKES_LARGE == TAKES_LARGE
    }

    fn ring(&mut self, index: u32) -> Result<&mut Ring> {
        self.rings.get_mut(index as usize).ok_or_else(|| {
            self.why = Some(format!("there is no queue {index}"));
            Error::InvalidParam
        })
    }

    fn refuse<T>(&mut self, why: impl ToString) -> Result<T> {
        self.why = Some(why.to_string());
        Err(Error::InvalidParam)
    }

    /// Looks up the queue of a ring, which begins with buffer `base`.
    fn begin(&mut self, index: usize, base: u16) -> Result<()> {
        let found = self.found(index, base);
        match found {
            Ok(queue) => {
                self.rings[index].queue = Some(queue);
                Ok(())
            }
            Err(why) => self.refuse(format!("queue {index}: {why}")),
        }
    }

    fn found(&self, index: usize, base: u16) -> std::result::Result<Queue, String> {
        let ring = &self.rings[index];
        let memory = self.memory.as_ref().ok_or("there is no memory for it")?;
        let addresses = ring.addresses.ok_or("its addresses are not known")?;
        if ring.size == 0 {
            return Err("its size is not known".to_owned());
        }
        let size = u64::from(ring.size);
        let lengths = [16 * size, 6 + 2 * size, 6 + 8 * size];
        let mut parts = addresses.iter().zip(lengths);
        let [descriptors, available, used] = std::array::from_fn(|_| {
            let (address, length) = parts.next().expect("as many");
            memory.find(*address, length)
        });
        let outside = "it is outside of the guest's memory";
        let place = Place {
            size: ring.size,
            descriptors: descriptors.ok_or(outside)?,
            available: available.ok_or(outside)?,
            used: used.ok_or(outside)?,
        };
        let has = |bit| self.features & bit != 0;
        let manners = Manners {
            indirect: has(feature::INDIRECT_DESC),
            event_index: has(feature::EVENT_IDX),
        };
        let queue = Queue::new(&memory.guest, place, manners, base);
        queue.map_err(|broken| broken.to_string())
    }

    /// The queues that are in use, after what they depend on has changed.
    fn begin_again(&mut self) -> Result<()> {
        for index in [RECEIVES, SENDS] {
            if let Some(queue) = self.rings[index].queue.take() {
                self.begin(index, queue.base())?;
            }
        }
        Ok(())
    }

    /// Removes the kick of a ring, which the front-end still has.
    fn forget_kick(&mut self, index: usize) {
        if let Some(kick) = self.rings[index].kick.take() {
            // It is in the set.
            let _ = self.kicks.remove(&kick);
        }
    }

    /// A descriptor that neither side waits at: other than asked for, it would stop this process.
    fn unblocked(&mut self, file: Option<File>) -> Result<Option<File>> {
        if let Some(file) = &file {
            let flags =
                fcntl_getfl(file).and_then(|flags| fcntl_setfl(file, flags | OFlags::NONBLOCK));
            if let Err(error) = flags {
                return self.refuse(error);
            }
        }
        Ok(file)
    }
}

impl Memory {
    fn map(
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
    ) -> std::result::Result<Memory, String> {
        let mut found: Vec<_> = regions.iter().copied().zip(files).collect();
        found.sort_by_key(|(region, _)| region.guest_phys_addr);
        let (mut mapped, mut places) = (Vec::new(), Vec::new());
        for (region, file) in found {
            let file = FileOffset::new(file, region.mmap_offset);
            let size = region.memory_size as usize;
            let mapping = MmapRegion::from_file(file, size).map_err(|error| error.to_string())?;
            let start = GuestAddress(region.guest_phys_addr);
            mapped.push(GuestRegionMmap::new(mapping, start).ok_or("an address is too large")?);
            places.push((region.user_addr, start, region.memory_size));
        }
        let guest = GuestMemoryMmap::from_regions(mapped).map_err(|error| error.to_string())?;
        Ok(Memory {
            guest,
            regions: places,
        })
    }

    /// The guest's address of what the front-end has there, if all of it is in one region.
    fn find(&self, address: u64, length: u64) -> Option<GuestAddress> {
        let within = |(start, guest, size): &(u64, GuestAddress, u64)| {
            let offset = address.checked_sub(*start)?;
            let end = offset.checked_add(length)?;
            (end <= *size).then(|| guest.unchecked_add(offset))
        };
        let found = self.regions.iter().find_map(within)?;
        self.guest
            .check_range(found, length as usize)
            .then_some(found)
    }
}

impl VhostUserBackendReqHandlerMut for Session {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        // Deprecated: "a back-end may ignore it".
        Ok(())
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(OFFERED)
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        if features & !OFFERED != 0 {
            return self.refuse(format!("features {features:#x} of {OFFERED:#x}"));
        }
        self.features = features;
        if features & VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits() == 0 {
            // There is no word for it then.
            for ring in &mut self.rings {
                ring.is_enabled = true;
            }
        }
        self.begin_again()
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(VhostUserProtocolFeatures::REPLY_ACK)
    }

    fn set_protocol_features(&mut self, features: u64) -> Result<()> {
        match features & !VhostUserProtocolFeatures::REPLY_ACK.bits() {
            0 => Ok(()),
            other => self.refuse(format!("protocol features {other:#x} were not offered")),
        }
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _: Option<bool>,
    ) -> Result<Option<Vec<VhostUserMemoryRegionBase>>> {
        match Memory::map(regions, files) {
            Ok(memory) => self.memory = Some(memory),
            Err(why) => return self.refuse(format!("the guest's memory: {why}")),
        }
        self.begin_again()?;
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, num: u32) -> Result<()> {
        let size = u16::try_from(num).unwrap_or(0);
        if !size.is_power_of_two() || size > MOST {
            return self.refuse(format!("a queue of {num} descriptors"));
        }
        let ring = self.ring(index)?;
        if ring.queue.is_some() {
            return self.refuse("the size of a queue that is in use");
        }
        ring.size = size;
        Ok(())
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _: VhostUserVringAddrFlags,
        descriptor: u64,
        used: u64,
        available: u64,
        _: u64,
    ) -> Result<()> {
        self.ring(index)?.addresses = Some([descriptor, available, used]);
        self.begin_again()
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        let ring = self.ring(index)?;
        if ring.queue.is_some() {
            return self.refuse("the next buffer of a queue that is in use");
        }
        // What is above is another kind of queue's.
        ring.base = base as u16;
        Ok(())
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let ring = self.ring(index)?;
        // So it ends.
        let base = ring.queue.take().map_or(ring.base, |queue| queue.base());
        ring.base = base;
        ring.call = None;
        self.forget_kick(index as usize);
        Ok(VhostUserVringState::new(index, base.into()))
    }

    fn set_vring_kick(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        let base = self.ring(index.into())?.base;
        let fd = self.unblocked(fd)?;
        self.forget_kick(index.into());
        let Some(kick) = fd else {
            return self.refuse("a queue without a kick would have to be looked at all the time");
        };
        if let Err(error) = self.kicks.add(&kick, INPUT) {
            return self.refuse(format!("a kick: {error}"));
        }
        let ring = self.ring(index.into())?;
        ring.kick = Some(kick);
        let base = ring.queue.as_ref().map_or(base, Queue::base);
        self.begin(index.into(), base)
    }

    fn set_vring_call(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        let fd = self.unblocked(fd)?;
        let ring = self.ring(index.into())?;
        ring.call = fd;
        // QEMU gives it after the kick. What was used in between, the guest was not told of.
        ring.call();
        Ok(())
    }

    fn set_vring_err(&mut self, index: u8, _: Option<File>) -> Result<()> {
        self.ring(index.into())?;
        Ok(())
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        self.ring(index)?.is_enabled = enable;
        Ok(())
    }

    // What follows is for what is not offered.

    fn reset_device(&mut self) -> Result<()> {
        self.refuse(NOT_OFFERED)
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        self.refuse(NOT_OFFERED)
    }

    fn get_config(&mut self, _: u32, _: u32, _: VhostUserConfigFlags) -> Result<Vec<u8>> {
        self.refuse(NOT_OFFERED)
    }

    fn set_config(&mut self, _: u32, _: &[u8], _: VhostUserConfigFlags) -> Result<()> {
        self.refuse(NOT_OFFERED)
    }

    fn set_gpu_socket(&mut self, _: GpuBackend) -> Result<()> {
        self.refuse(NOT_OFFERED)
    }

    fn get_shared_object(&mut self, _: VhostUserSharedMsg) -> Result<File> {
        self.refuse(NOT_OFFERED)
    }

    fn get_inflight_fd(&mut self, _: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        self.refuse(NOT_OFFERED)
    }

    fn set_inflight_fd(&mut self, _: &VhostUserInflight, _: File) -> Result<()> {
        self.refuse(NOT_OFFERED)
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        self.refuse(NOT_OFFERED)
    }

    fn add_mem_region(
        &mut self,
        _: &VhostUserSingleMemoryRegion,
        _: File,
        _: Option<bool>,
    ) -> Result<Option<VhostUserMemoryRegionBase>> {
        self.refuse(NOT_OFFERED)
    }

    fn remove_mem_region(&mut self, _: &VhostUserSingleMemoryRegion) -> Result<()> {
        self.refuse(NOT_OFFERED)
    }

    fn set_device_state_fd(
        &mut self,
        _: VhostTransferStateDirection,
        _: VhostTransferStatePhase,
        _: File,
    ) -> Result<Option<File>> {
        self.refuse(NOT_OFFERED)
    }

    fn check_device_state(&mut self) -> Result<()> {
        self.refuse(NOT_OFFERED)
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        self.refuse(NOT_OFFERED)
    }

    fn set_log_base(&mut self, _: &VhostUserLog, _: File) -> Result<()> {
        self.refuse(NOT_OFFERED)
    }
}

const NOT_OFFERED: &str = "a request for a feature that was not offered";
