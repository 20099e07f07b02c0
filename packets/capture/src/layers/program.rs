//! The programs at the tracepoints.

use super::event::{kind, layout};
use crate::bpf::Reg::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10};
use crate::bpf::{
    Alu, Asm, BpfError, Btf, BtfError, Cond, Helper, Hook, Label, Link, Map, Operand, Program,
    ProgramKind, Reg, RingBuffer, Size,
};

/// Largest number of packets remembered, between driver and stack or in sockets, and most sockets: beyond that,
/// those not heard of for the longest time are forgotten.
const REMEMBERED: u32 = 16_384;
/// Addresses of internet sockets.
const INET: i32 = 2;
const INET6: i32 = 10;
const UDP: i32 = 17;
/// Reads that take nothing out of the queue: MSG_PEEK, MSG_ERRQUEUE.
const NOT_TAKEN: i32 = 0x2 | 0x2000;
/// Results of reads that found nothing: EAGAIN, ERESTARTSYS.
const NOTHING_THERE: [i32; 2] = [-11, -512];
/// A link-layer header is no longer than this.
const LONGEST_LINK_HEADER: i32 = 64;

/// The tracepoints at which drivers hand packets over, whichever way they have.
const DRIVER: [&str; 5] = [
    "napi_gro_receive_entry",
    "napi_gro_frags_entry",
    "netif_receive_skb_entry",
    "netif_receive_skb_list_entry",
    "netif_rx_entry",
];

/// Calls by which programs send.
const SENDING: [libc::c_long; 5] =
    [libc::SYS_sendto, libc::SYS_sendmsg, libc::SYS_sendmmsg, libc::SYS_write, libc::SYS_writev];
/// A buffer on its way down that the driver was given; a time has no such bit for 146 years.
const GIVEN: u32 = 62;
/// The driver had no room: the packet stays where it is (`NETDEV_TX_BUSY`).
const BUSY: i32 = 0x10;

/// Where this kernel keeps what the programs look at, in bytes.
struct Fields {
    device: i16,
    length: i16,
    paged: i16,
    head: i16,
    data: i16,
    mac_header: i16,
    interface: i16,
    network: i16,
    number: i16,
    family: i16,
    protocol: i16,
    came_by: i16,
    queue: i16,
    queue_apart: i32,
    owner: i16,
}

impl Fields {
    fn of(btf: &Btf) -> Result<Fields, BtfError> {
        let at = |structure: &str, path: &str| {
            let offset = btf.offset(structure, path)?;
            let too_far = |_| BtfError::Unknown(format!("{structure}.{path} within reach"));
            i16::try_from(offset).map_err(too_far)
        };
        Ok(Fields {
            device: at("sk_buff", "dev")?,
            length: at("sk_buff", "len")?,
            paged: at("sk_buff", "data_len")?,
            head: at("sk_buff", "head")?,
            data: at("sk_buff", "data")?,
            mac_header: at("sk_buff", "mac_header")?,
            interface: at("net_device", "ifindex")?,
            network: at("net_device", "nd_net.net")?,
            number: at("net", "ns.inum")?,
            family: at("sock", "__sk_common.skc_family")?,
            protocol: at("sock", "sk_protocol")?,
            came_by: at("sk_buff", "skb_iif")?,
            queue: at("sock", "sk_receive_queue.next")?,
            queue_apart: i32::from(at("udp_sock", "reader_queue.next")?),
            owner: at("sk_buff", "sk")?,
        })
    }
}

/// Maps that the programs share.
struct Maps {
    /// By buffer: when the driver handed it over.
    driver: Map,
    /// The buffer that this processor is taking through the stack; 0 for none of ours.
    current: Map,
    /// By buffer: the last that came in by it was of our interface.
    ours: Map,
    /// By number: the datagram sockets that took one of ours.
    sockets: Map,
    /// By thread: when the call began by which it sends, and the socket of the first buffer that it sent; 0
    /// for none yet.
    sending: Map,
    sender: Map,
    /// By buffer that waits to leave by our interface: when it entered the queue, ns; with the bit [`GIVEN`]
    /// once the driver was given it.
    leaving: Map,
    /// Number of records that found no room.
    lost: Map,
}

/// The programs, at work until this is dropped or the process is gone.
pub(super) struct Programs {
    links: Vec<Link>,
    ring: RingBuffer,
    lost: Map,
}

/// Which packets are meant.
#[derive(Clone, Copy)]
pub(super) struct Whose {
    /// The number of the interface.
    pub interface: u32,
    /// The number of the network namespace that it is in.
    pub network: u32,
}

/// Reason why the programs cannot be had.
pub(super) enum NoPrograms {
    Types(BtfError),
    Bpf(BpfError),
}

impl From<BtfError> for NoPrograms {
    fn from(error: BtfError) -> NoPrograms {
        NoPrograms::Types(error)
    }
}

impl From<BpfError> for NoPrograms {
    fn from(error: BpfError) -> NoPrograms {
        NoPrograms::Bpf(error)
    }
}

impl Programs {
    pub fn start(whose: Whose, ring_bytes: u32) -> Result<Programs, NoPrograms> {
        let btf = Btf::kernel()?;
        let fields = Fields::of(&btf)?;
        let ring = RingBuffer::new(ring_bytes)?;
        let maps = Maps {
            driver: Map::lru_hash(8, 8, REMEMBERED)?,
            current: Map::per_cpu_array(8, 1)?,
            ours: Map::lru_hash(8, 8, REMEMBERED)?,
            sockets: Map::lru_hash(8, 8, REMEMBERED)?,
            sending: Map::lru_hash(8, 8, REMEMBERED)?,
            sender: Map::lru_hash(8, 8, REMEMBERED)?,
            leaving: Map::lru_hash(8, 8, REMEMBERED)?,
            lost: Map::per_cpu_array(8, 1)?,
        };
        let mut links = Vec::new();
        let mut attach = |tracepoint: &str, name: &str, asm: &Asm| -> Result<(), NoPrograms> {
            let hook = Hook::Tracepoint(btf.tracepoint(tracepoint)?);
            let program = Program::load(ProgramKind::Tracing(hook), name, asm)?;
            links.push(Link::tracing(&program)?);
            Ok(())
        };
        let writer = Writer { fields, maps, ring: &ring, whose };
        // Kernels without tracepoints of system calls do not say when a call began.
        for (tracepoint, name, asm) in [
            ("sys_exit", "layer_call_end", writer.call_ends()),
            ("sys_enter", "layer_call", writer.call_begins()),
        ] {
            match attach(tracepoint, name, &asm) {
                Ok(()) | Err(NoPrograms::Types(_)) => {}
                Err(error) => return Err(error),
            }
        }
        // On the way down from the bottom up, as whoever is below makes sense of what comes from above.
        attach("net_dev_xmit", "layer_sent", &writer.sent())?;
        attach("net_dev_start_xmit", "layer_transmit", &writer.transmit())?;
        attach("net_dev_queue", "layer_scheduler", &writer.scheduler())?;
        for (tracepoint, name) in [("kfree_skb", "layer_drop"), ("consume_skb", "layer_free")] {
            attach(tracepoint, name, &writer.freed())?;
        }
        // From the top down: what comes from below is known by whoever is above.
        attach("skb_copy_datagram_iovec", "layer_read", &writer.read())?;
        attach("sock_recv_length", "layer_received", &writer.received())?;
        attach("sk_data_ready", "layer_socket", &writer.socket())?;
        attach("netif_receive_skb", "layer_stack", &writer.stack())?;
        let mut drivers = 0;
        for tracepoint in DRIVER {
            match attach(tracepoint, "layer_driver", &writer.driver()) {
                Ok(()) => drivers += 1,
                Err(NoPrograms::Types(_)) => {}
                Err(error) => return Err(error),
            }
        }
        if drivers == 0 {
            return Err(
                BtfError::Unknown("tracepoint where drivers hand packets over".into()).into()
            );
        }
        let lost = writer.maps.lost;
        Ok(Programs { links, ring, lost })
    }

    pub fn ring(&mut self) -> &mut RingBuffer {
        &mut self.ring
    }

    pub fn links(&self) -> usize {
        self.links.len()
    }

    pub fn lost(&self) -> Result<u64, BpfError> {
        self.lost.sum(0, 0)
    }
}

/// Writes the programs.
struct Writer<'a> {
    fields: Fields,
    maps: Maps,
    ring: &'a RingBuffer,
    whose: Whose,
}

/// Where on the stack keys and values are put for the kernel's helpers.
const KEY: i16 = -8;
const VALUE: i16 = -16;
/// Numbers that are kept over calls: what a read returned, what is first in a queue.
const RESULT: i16 = -24;
const FIRST: i16 = -32;

impl Writer<'_> {
    /// Goes to `other` unless the buffer in R6 is of the interface that is meant. Uses R7.
    fn unless_ours(&self, asm: &mut Asm, other: Label) {
        asm.load(Size::U64, R7, R6, self.fields.device);
        self.unless_device(asm, other);
    }

    /// Goes to `other` unless the device in R7 is the interface that is meant. Uses R1.
    fn unless_device(&self, asm: &mut Asm, other: Label) {
        let fields = &self.fields;
        asm.jump_if(Cond::Eq, R7, 0, other);
        asm.load(Size::U32, R1, R7, fields.interface);
        asm.jump_if32(Cond::Ne, R1, self.whose.interface.cast_signed(), other);
        asm.load(Size::U64, R7, R7, fields.network);
        asm.jump_if(Cond::Eq, R7, 0, other);
        asm.load(Size::U32, R1, R7, fields.number);
        asm.jump_if32(Cond::Ne, R1, self.whose.network.cast_signed(), other);
    }

    /// R0 = the value of `map` under the key that is `key`; 0 if there is none.
    fn look_up(asm: &mut Asm, map: &Map, key: impl Into<Operand>) {
        asm.store(Size::U64, R10, KEY, key);
        asm.map(R1, map).mov(R2, R10).add(R2, i32::from(KEY)).call(Helper::MapLookup);
    }

    /// R0 = what is this processor's own in a per-CPU array of one.
    fn own(asm: &mut Asm, map: &Map) {
        asm.store(Size::U32, R10, KEY, 0);
        asm.map(R1, map).mov(R2, R10).add(R2, i32::from(KEY)).call(Helper::MapLookup);
    }

    /// `map[key] = value`.
    fn put(asm: &mut Asm, map: &Map, key: Reg, value: impl Into<Operand>) {
        asm.store(Size::U64, R10, KEY, key).store(Size::U64, R10, VALUE, value);
        asm.map(R1, map).mov(R2, R10).add(R2, i32::from(KEY));
        asm.mov(R3, R10).add(R3, i32::from(VALUE)).mov(R4, 0).call(Helper::MapUpdate);
    }

    /// Takes the entry under the key at `KEY` away.
    fn take_away(asm: &mut Asm, map: &Map) {
        asm.map(R1, map).mov(R2, R10).add(R2, i32::from(KEY)).call(Helper::MapDelete);
    }

    /// R0 = room for a record; where there is none it is counted, and the program ends.
    fn reserve(&self, asm: &mut Asm, bytes: i16) {
        let got = asm.label();
        let end = asm.label();
        asm.map(R1, self.ring.map()).mov(R2, i32::from(bytes)).mov(R3, 0);
        asm.call(Helper::RingbufReserve).jump_if(Cond::Ne, R0, 0, got);
        Self::own(asm, &self.maps.lost);
        asm.jump_if(Cond::Eq, R0, 0, end);
        asm.load(Size::U64, R1, R0, 0).add(R1, 1).store(Size::U64, R0, 0, R1);
        asm.bind(end).give(0).bind(got);
    }

    /// The driver hands a buffer over.
    fn driver(&self) -> Asm {
        let mut asm = Asm::new();
        let end = asm.label();
        asm.load(Size::U64, R6, R1, 0);
        self.unless_ours(&mut asm, end);
        asm.call(Helper::KtimeGetNs);
        Self::put(&mut asm, &self.maps.driver, R6, R0);
        asm.bind(end).give(0);
        asm
    }

    /// The stack begins with a buffer.
    fn stack(&self) -> Asm {
        let mut asm = Asm::new();
        let fields = &self.fields;
        let (other, end, untold) = (asm.label(), asm.label(), asm.label());
        asm.load(Size::U64, R6, R1, 0);
        self.unless_ours(&mut asm, other);
        asm.call(Helper::KtimeGetNs).mov(R7, R0);
        Self::own(&mut asm, &self.maps.current);
        asm.jump_if(Cond::Eq, R0, 0, end).store(Size::U64, R0, 0, R6);
        asm.mov(R8, 0);
        Self::look_up(&mut asm, &self.maps.driver, R6);
        asm.jump_if(Cond::Eq, R0, 0, untold).load(Size::U64, R8, R0, 0);
        Self::take_away(&mut asm, &self.maps.driver);
        asm.bind(untold);
        Self::put(&mut asm, &self.maps.ours, R6, 1);
        self.reserve(&mut asm, layout::LONG);
        asm.mov(R9, R0);
        asm.store(Size::U32, R9, layout::KIND, kind::ARRIVED.cast_signed());
        asm.store(Size::U64, R9, layout::MONOTONIC, R7).store(Size::U64, R9, layout::BUFFER, R6);
        asm.store(Size::U64, R9, layout::SOCKET, R8).store(Size::U32, R9, layout::PID, 0);
        // R3 = where the link layer begins, R1 = how many bytes that is before the data.
        let sane = asm.label();
        asm.load(Size::U64, R3, R6, fields.head).load(Size::U16, R1, R6, fields.mac_header);
        asm.add(R3, R1).load(Size::U64, R1, R6, fields.data).mov(R2, R1).sub(R1, R3);
        asm.jump_if(Cond::Le, R1, LONGEST_LINK_HEADER, sane).mov(R3, R2).mov(R1, 0).bind(sane);
        asm.load(Size::U32, R7, R6, fields.length).load(Size::U32, R8, R6, fields.paged);
        asm.add(R7, R1).store(Size::U32, R9, layout::LENGTH, R7);
        self.bytes(&mut asm);
        asm.mov(R1, R9).mov(R2, 0).call(Helper::RingbufSubmit).give(0);
        asm.bind(other);
        Self::own(&mut asm, &self.maps.current);
        asm.jump_if(Cond::Eq, R0, 0, end).store(Size::U64, R0, 0, 0);
        // A buffer that had one of ours in it, and has it no longer.
        Self::look_up(&mut asm, &self.maps.ours, R6);
        asm.jump_if(Cond::Eq, R0, 0, end);
        Self::take_away(&mut asm, &self.maps.ours);
        asm.call(Helper::KtimeGetNs).mov(R7, R0).mov(R8, R6).mov(R6, 0);
        self.short(&mut asm, kind::FOREIGN, Kept::default());
        asm.bind(end).give(0);
        asm
    }

    /// Keeps on the stack which buffer is first in the queue of the datagram socket R6; 0 if none.
    fn first(&self, asm: &mut Asm) {
        let found = asm.label();
        let (queue, apart) = (self.fields.queue, self.fields.queue_apart);
        // A reader moves what waits to a queue of its own, out of the way of arrivals. An empty
        // queue leads back to itself.
        asm.store(Size::U64, R10, VALUE, 0);
        asm.mov(R1, R10).add(R1, i32::from(VALUE)).mov(R2, 8).mov(R3, R6).add(R3, apart);
        asm.call(Helper::ProbeReadKernel).load(Size::U64, R1, R10, VALUE);
        asm.mov(R2, R6).add(R2, apart).jump_if(Cond::Ne, R1, R2, found);
        asm.load(Size::U64, R1, R6, queue).mov(R2, R6).add(R2, i32::from(queue));
        asm.jump_if(Cond::Ne, R1, R2, found).mov(R1, 0);
        asm.bind(found).store(Size::U64, R10, FIRST, R1);
    }

    /// A socket tells whoever waits that there is something: what this processor was taking
    /// through the stack. Of datagram sockets that ever took one of ours, every one counts, whose
    /// ever it is: their order is how a read is told. A socket is known by its number, as the next
    /// one may have its address.
    fn socket(&self) -> Asm {
        let mut asm = Asm::new();
        let fields = &self.fields;
        let [end, internet, none, stream, known] = std::array::from_fn(|_| asm.label());
        asm.load(Size::U64, R6, R1, 0).load(Size::U16, R1, R6, fields.family);
        asm.jump_if(Cond::Eq, R1, INET, internet).jump_if(Cond::Ne, R1, INET6, end);
        asm.bind(internet).call(Helper::KtimeGetNs).mov(R7, R0).mov(R8, 0);
        Self::own(&mut asm, &self.maps.current);
        asm.jump_if(Cond::Eq, R0, 0, none).load(Size::U64, R8, R0, 0);
        asm.store(Size::U64, R0, 0, 0).bind(none);
        asm.load(Size::U16, R1, R6, fields.protocol).jump_if(Cond::Ne, R1, UDP, stream);
        // Ours make a socket known; others count if it is.
        let foreign = asm.label();
        asm.mov(R1, R6).call(Helper::SocketCookie).mov(R9, R0);
        asm.jump_if(Cond::Eq, R8, 0, foreign);
        Self::put(&mut asm, &self.maps.sockets, R9, 1);
        asm.jump(known).bind(foreign);
        Self::look_up(&mut asm, &self.maps.sockets, R9);
        asm.jump_if(Cond::Eq, R0, 0, end).bind(known);
        self.first(&mut asm);
        asm.mov(R6, R9);
        self.short(&mut asm, kind::DATAGRAM_QUEUED, Kept { first: true, ..Kept::default() });
        asm.bind(stream).jump_if(Cond::Eq, R8, 0, end);
        self.short(&mut asm, kind::QUEUED, Kept::default());
        asm.bind(end).give(0);
        asm
    }

    /// A read from a socket has returned.
    fn received(&self) -> Asm {
        let mut asm = Asm::new();
        let end = asm.label();
        asm.load(Size::U64, R6, R1, 0).load(Size::U64, R8, R1, 8).load(Size::U64, R2, R1, 16);
        for nothing in NOTHING_THERE {
            asm.jump_if32(Cond::Eq, R8, nothing, end);
        }
        asm.jump_if(Cond::Set, R2, NOT_TAKEN, end).store(Size::U64, R10, RESULT, R8);
        asm.mov(R1, R6).call(Helper::SocketCookie).mov(R9, R0);
        Self::look_up(&mut asm, &self.maps.sockets, R9);
        asm.jump_if(Cond::Eq, R0, 0, end).call(Helper::KtimeGetNs).mov(R7, R0).mov(R8, 0);
        self.first(&mut asm);
        asm.mov(R6, R9);
        self.short(&mut asm, kind::RECEIVED, Kept { result: true, first: true });
        asm.bind(end).give(0);
        asm
    }

    /// Bytes are taken out of a buffer.
    fn read(&self) -> Asm {
        let mut asm = Asm::new();
        let end = asm.label();
        asm.load(Size::U64, R8, R1, 0);
        Self::look_up(&mut asm, &self.maps.ours, R8);
        asm.jump_if(Cond::Eq, R0, 0, end).mov(R6, 0);
        Self::take_away(&mut asm, &self.maps.ours);
        // The kernel merges segments and says nothing of it. Then the buffer may hold what never
        // came in by any interface: a message between processes, say.
        asm.load(Size::U32, R1, R8, self.fields.came_by).jump_if32(Cond::Eq, R1, 0, end);
        asm.call(Helper::KtimeGetNs).mov(R7, R0);
        self.short(&mut asm, kind::READ, Kept::default());
        asm.bind(end).give(0);
        asm
    }

    /// A program calls the system.
    fn call_begins(&self) -> Asm {
        let mut asm = Asm::new();
        let (sends, end) = (asm.label(), asm.label());
        asm.load(Size::U64, R8, R1, 8);
        for call in SENDING {
            asm.jump_if(Cond::Eq, R8, i32::try_from(call).unwrap_or(-1), sends);
        }
        asm.jump(end).bind(sends).call(Helper::CurrentPidTgid).mov(R9, R0);
        asm.call(Helper::KtimeGetNs).mov(R7, R0);
        Self::put(&mut asm, &self.maps.sending, R9, R7);
        Self::put(&mut asm, &self.maps.sender, R9, 0);
        asm.bind(end).give(0);
        asm
    }

    /// A call ends: what its thread sends from now on is none of it.
    fn call_ends(&self) -> Asm {
        let mut asm = Asm::new();
        let end = asm.label();
        // Nearly every call sends nothing: looking takes no lock, taking away does.
        asm.call(Helper::CurrentPidTgid);
        Self::look_up(&mut asm, &self.maps.sending, R0);
        asm.jump_if(Cond::Eq, R0, 0, end);
        Self::take_away(&mut asm, &self.maps.sending);
        asm.bind(end).give(0);
        asm
    }

    /// A buffer enters the interface's queue. Sent by a call is what comes here in its midst, as long as it
    /// is of the socket of the first that does: what the kernel answers meanwhile is of another.
    fn scheduler(&self) -> Asm {
        let mut asm = Asm::new();
        let [end, untold, known] = std::array::from_fn(|_| asm.label());
        asm.load(Size::U64, R6, R1, 0);
        self.unless_ours(&mut asm, end);
        asm.call(Helper::KtimeGetNs).mov(R7, R0).mov(R8, R6).mov(R6, 0);
        Self::put(&mut asm, &self.maps.leaving, R8, R7);
        asm.call(Helper::CurrentPidTgid).store(Size::U64, R10, RESULT, R0);
        asm.load(Size::U64, R9, R8, self.fields.owner).jump_if(Cond::Eq, R9, 0, untold);
        asm.load(Size::U64, R1, R10, RESULT);
        Self::look_up(&mut asm, &self.maps.sending, R1);
        asm.jump_if(Cond::Eq, R0, 0, untold).load(Size::U64, R1, R0, 0);
        asm.store(Size::U64, R10, FIRST, R1).load(Size::U64, R1, R10, RESULT);
        Self::look_up(&mut asm, &self.maps.sender, R1);
        asm.jump_if(Cond::Eq, R0, 0, untold).load(Size::U64, R1, R0, 0);
        asm.jump_if(Cond::Eq, R1, R9, known).jump_if(Cond::Ne, R1, 0, untold);
        asm.store(Size::U64, R0, 0, R9).bind(known).load(Size::U64, R6, R10, FIRST).bind(untold);
        self.short(&mut asm, kind::SCHEDULED, Kept::default());
        asm.bind(end).give(0);
        asm
    }

    /// The driver is given a buffer. Below a tunnel or a VLAN another driver may be given the same one.
    fn transmit(&self) -> Asm {
        let mut asm = Asm::new();
        let fields = &self.fields;
        let end = asm.label();
        asm.load(Size::U64, R6, R1, 0).load(Size::U64, R7, R1, 8);
        self.unless_device(&mut asm, end);
        Self::look_up(&mut asm, &self.maps.leaving, R6);
        asm.jump_if(Cond::Eq, R0, 0, end).load(Size::U64, R8, R0, 0);
        asm.mov(R1, R8).mov(R2, 1).alu(Alu::Shl, R2, GIVEN.cast_signed());
        asm.alu(Alu::Or, R1, R2).store(Size::U64, R0, 0, R1);
        asm.call(Helper::KtimeGetNs).mov(R7, R0);
        self.reserve(&mut asm, layout::LONG);
        asm.mov(R9, R0);
        asm.store(Size::U32, R9, layout::KIND, kind::TRANSMITTED.cast_signed());
        asm.store(Size::U64, R9, layout::MONOTONIC, R7).store(Size::U64, R9, layout::BUFFER, R6);
        asm.store(Size::U64, R9, layout::SOCKET, R8).store(Size::U32, R9, layout::PID, 0);
        asm.load(Size::U32, R7, R6, fields.length).load(Size::U32, R8, R6, fields.paged);
        asm.store(Size::U32, R9, layout::LENGTH, R7);
        // On its way out the data begin with the link layer.
        asm.load(Size::U64, R3, R6, fields.data);
        self.bytes(&mut asm);
        asm.mov(R1, R9).mov(R2, 0).call(Helper::RingbufSubmit).bind(end).give(0);
        asm
    }

    /// The driver has returned: what it was given may be gone, or another packet's, so nothing of the buffer
    /// is looked at.
    fn sent(&self) -> Asm {
        let mut asm = Asm::new();
        let [end, gone] = std::array::from_fn(|_| asm.label());
        asm.load(Size::U64, R8, R1, 0).load(Size::U64, R6, R1, 8).load(Size::U64, R7, R1, 16);
        self.unless_device(&mut asm, end);
        Self::look_up(&mut asm, &self.maps.leaving, R8);
        asm.jump_if(Cond::Eq, R0, 0, end).load(Size::U64, R9, R0, 0);
        asm.mov(R1, R9).alu(Alu::Shr, R1, GIVEN.cast_signed()).jump_if(Cond::Eq, R1, 0, end);
        asm.jump_if32(Cond::Ne, R6, BUSY, gone);
        // Without the bit it waits again.
        asm.alu(Alu::Shl, R9, 64 - GIVEN.cast_signed()).alu(Alu::Shr, R9, 64 - GIVEN.cast_signed());
        asm.store(Size::U64, R0, 0, R9).jump(end).bind(gone);
        Self::take_away(&mut asm, &self.maps.leaving);
        asm.call(Helper::KtimeGetNs).mov(R7, R0);
        self.short(&mut asm, kind::SENT, Kept::default());
        asm.bind(end).give(0);
        asm
    }

    /// A buffer is freed, in the queue or as one that was cut into several: the next packet in it is another.
    /// Of those that the driver has, [`sent`](Self::sent) tells.
    fn freed(&self) -> Asm {
        let mut asm = Asm::new();
        let end = asm.label();
        asm.load(Size::U64, R6, R1, 0);
        Self::look_up(&mut asm, &self.maps.leaving, R6);
        asm.jump_if(Cond::Eq, R0, 0, end).load(Size::U64, R1, R0, 0);
        asm.alu(Alu::Shr, R1, GIVEN.cast_signed()).jump_if(Cond::Ne, R1, 0, end);
        Self::take_away(&mut asm, &self.maps.leaving);
        asm.bind(end).give(0);
        asm
    }

    /// Copies into the record R9 from R3 on as much of a packet of R7 bytes as is in one piece, all but R8.
    fn bytes(&self, asm: &mut Asm) {
        let short = asm.label();
        asm.mov(R2, R7).sub(R2, R8);
        asm.jump_if(Cond::Le, R2, i32::from(layout::MOST_BYTES), short);
        asm.mov(R2, i32::from(layout::MOST_BYTES)).bind(short);
        asm.store(Size::U32, R9, layout::COPIED, R2);
        asm.mov(R1, R9).add(R1, i32::from(layout::BYTES)).call(Helper::ProbeReadKernel);
    }

    /// A record without bytes, and the end: R6 is the socket, R7 the time, R8 the buffer; more is
    /// on the stack.
    fn short(&self, asm: &mut Asm, kind: u32, kept: Kept) {
        self.reserve(asm, layout::SHORT);
        asm.mov(R9, R0);
        asm.store(Size::U32, R9, layout::KIND, kind.cast_signed());
        asm.mov(R1, 0).mov(R2, 0);
        if kept.result {
            asm.load(Size::U64, R1, R10, RESULT);
        }
        if kept.first {
            asm.load(Size::U64, R2, R10, FIRST);
        }
        asm.store(Size::U32, R9, layout::LENGTH, R1).store(Size::U64, R9, layout::FIRST, R2);
        asm.store(Size::U64, R9, layout::MONOTONIC, R7).store(Size::U64, R9, layout::BUFFER, R8);
        asm.store(Size::U64, R9, layout::SOCKET, R6).call(Helper::CurrentPidTgid);
        asm.store(Size::U32, R9, layout::COPIED, R0);
        asm.alu(Alu::Shr, R0, 32).store(Size::U32, R9, layout::PID, R0);
        asm.mov(R1, R9).mov(R2, 0).call(Helper::RingbufSubmit).give(0);
    }
}

/// Parts of a record on the stack; the rest is 0.
#[derive(Clone, Copy, Default)]
struct Kept {
    result: bool,
    first: bool,
}
