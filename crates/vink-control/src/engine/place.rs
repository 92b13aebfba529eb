//! Where a lab's workers are: the links to its hosts, workers there, and wires between two hosts.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use indexmap::IndexMap;
use vink_api::{Happening, HostState, HostStatus};
use vink_protocol::{UplinkTarget, WatchdogReport, WireKeys, WorkerConfig};
use vink_spec::{Change, HostSpec, MachineChange};
use vink_sys::rustix::rand::{getrandom, GetRandomFlags};

use super::command::{join, WorkerCmd};
use super::lab::{Lab, State};
use super::worker::{Started, Worker};
use super::worker_client::WorkerClient;
use crate::host::{bind_here, Descriptor, HostLink};
use crate::http_error::HttpError;

/// A host of a lab.
pub(crate) enum Host {
    Connecting,
    Connected(Arc<HostLink>),
    /// Why.
    Lost(String),
}

/// The sockets of a wire that is about to lead from one host to another.
pub(crate) struct Crossing([Side; 2]);

struct Side {
    worker: usize,
    socket: Descriptor,
    /// Where it is for the other side, if that is known.
    address: Option<SocketAddr>,
}

impl Worker {
    /// Whether machines that say this of their host and image belong there.
    pub(super) fn is_for(&self, host: Option<&str>, image: Option<&str>, path: &Path) -> bool {
        self.host.as_deref() == host
            && match host {
                Some(_) => self.image.as_deref() == image,
                None => self.path == path,
            }
    }
}

impl Lab {
    /// Connects all hosts at once that these steps need.
    pub(super) async fn connect_hosts(self: &Arc<Lab>, steps: &[Change]) -> Result<(), HttpError> {
        let mut names: Vec<&str> = Vec::new();
        let mut specs = self.state().spec.hosts.clone();
        for step in steps {
            match step {
                Change::Options(options) => specs.clone_from(&options.hosts),
                Change::Machine(MachineChange::Add { spec, .. }) => {
                    names.extend(spec.host.as_deref())
                }
                _ => {}
            }
        }
        names.sort_unstable();
        names.dedup();
        let total = names.len();
        let mut done = 0;
        let connecting = names.into_iter().map(|name| {
            let spec = specs.get(name);
            async move {
                let spec = spec.ok_or_else(|| self.state().no_host(name))?;
                self.tell_progress(name, "connecting", 0, total);
                self.connect(name, spec).await?;
                Ok::<_, HttpError>(name)
            }
        });
        let mut connecting: futures_util::stream::FuturesUnordered<_> = connecting.collect();
        let mut failed = None;
        while let Some(next) = futures_util::StreamExt::next(&mut connecting).await {
            match next {
                Ok(name) => {
                    done += 1;
                    self.tell_progress(name, "connected", done, total);
                }
                Err(fault) => drop(failed.get_or_insert(fault)),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn tell_progress(&self, host: &str, what: &str, done: usize, total: usize) {
        let step = format!("host {host}: {what}");
        self.tell(Happening::Progress { step, done, total });
    }

    /// The link to a host, which is made if there is none.
    async fn connect(
        self: &Arc<Lab>,
        name: &str,
        spec: &HostSpec,
    ) -> Result<Arc<HostLink>, HttpError> {
        {
            let mut state = self.state();
            match state.hosts.get(name) {
                Some(Host::Connected(link)) if !link.is_lost() && link.spec == *spec => {
                    return Ok(link.clone());
                }
                _ => state.hosts.insert(name.to_owned(), Host::Connecting),
            };
        }
        let mut ending = self.ending.subscribe();
        let connected = tokio::select! {
            connected = HostLink::connect(name, spec, &self.env, &self.folder) => connected,
            _ = ending.wait_for(|ending| *ending) => Err(HttpError::conflict(format!(
                "host {name}: lab {} is being taken down", self.name
            ))),
        };
        let link = match connected {
            Ok(link) => link,
            Err(fault) => {
                let why = fault.problem.error.clone();
                self.state().hosts.insert(name.to_owned(), Host::Lost(why));
                return Err(fault);
            }
        };
        self.state()
            .hosts
            .insert(name.to_owned(), Host::Connected(link.clone()));
        self.tell(Happening::Host {
            host: name.to_owned(),
            state: HostState::Connected,
            error: None,
        });
        let (lab, watched) = (Arc::downgrade(self), link.clone());
        tokio::spawn(async move {
            let why = watched.lost().await;
            if let Some(lab) = lab.upgrade() {
                lab.host_lost(&watched, why);
            }
        });
        Ok(link)
    }

    fn host_lost(&self, link: &Arc<HostLink>, why: String) {
        {
            let mut state = self.state();
            match state.hosts.get_mut(&link.name) {
                Some(host @ Host::Connected(_)) if host.is_link(link) => {
                    *host = Host::Lost(why.clone());
                }
                // It was to go.
                _ => return,
            }
        }
        self.tell(Happening::Host {
            host: link.name.clone(),
            state: HostState::Lost,
            error: Some(why),
        });
    }

    /// The link to the host of a worker; `None`: it is on this one.
    pub(super) async fn link_of_worker(
        self: &Arc<Lab>,
        worker: usize,
    ) -> Result<Option<Arc<HostLink>>, HttpError> {
        let (name, spec) = {
            let state = self.state();
            let Some(name) = state.workers[worker].host.clone() else {
                return Ok(None);
            };
            let spec = state.spec.hosts.get(&name).cloned();
            let spec = spec.ok_or_else(|| state.no_host(&name))?;
            (name, spec)
        };
        self.connect(&name, &spec).await.map(Some)
    }

    /// Starts the process of a worker on another host, and waits until its kernel has booted.
    pub(super) async fn start_worker_there(
        self: &Arc<Lab>,
        worker: (usize, u64),
        config: WorkerConfig,
        link: &Arc<HostLink>,
    ) -> Result<Started, HttpError> {
        let image = {
            let state = self.state();
            let image = state.workers[worker.0].image.as_ref();
            image.and_then(|name| state.spec.images.get(name)).cloned()
        };
        let what = match &image {
            Some(image) => format!("host {}: starting a worker with {image}", link.name),
            None => format!("host {}: starting a worker", link.name),
        };
        let failed = |why: &str| {
            let fault = HttpError::conflict(format!("{what}: {why}"));
            match why.contains("image") {
                true => fault.hint(format!(
                    "install images there (docs/install.md), or name one that is there; `vink version` on {} lists them",
                    link.name
                )),
                false => fault,
            }
        };
        let mut ending = self.ending.subscribe();
        let started = tokio::select! {
            started = link.start(image, config) => started.map_err(|why| failed(&why))?,
            _ = ending.wait_for(|ending| *ending) => {
                return Err(failed("the lab is being taken down"));
            }
        };
        let (client, mut said) =
            WorkerClient::there(link.clone(), started.number, started.messages);
        tokio::spawn(
            self.clone()
                .hear_watchdog_there(worker, started.pid, started.watchdog),
        );
        let first = tokio::select! {
            first = said.recv() => first,
            _ = ending.wait_for(|ending| *ending) => {
                return Err(failed("the lab is being taken down"));
            }
        };
        let path = PathBuf::from(started.image);
        Started::there(client, first, said, (started.process, started.pid), path)
            .await
            .map_err(|why| failed(&why))
    }

    /// The link to the host of a machine, if it is on another one, and that is there.
    pub(super) fn link_of_machine(&self, machine: &str) -> Option<Arc<HostLink>> {
        let state = self.state();
        let worker = state.worker_of.get(machine)?;
        let host = state.workers[*worker].host.as_ref()?;
        state.link_to(host).ok()
    }

    /// Listens to the watchdog of a worker on another host.
    async fn hear_watchdog_there(
        self: Arc<Lab>,
        worker: (usize, u64),
        pid: u32,
        mut reports: crate::host::StreamReader,
    ) {
        let mut text = Vec::new();
        while let Some(piece) = reports.next().await {
            let crate::host::Piece::Bytes(bytes) = piece else {
                continue;
            };
            text.extend(bytes);
            while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = text.drain(..=end).collect();
                match serde_json::from_slice::<WatchdogReport>(&line) {
                    Ok(report) => {
                        if !self.watchdog_told(worker, pid, report) {
                            return;
                        }
                    }
                    Err(error) => {
                        tracing::warn!(target: "control", "a worker's watchdog: {error}");
                    }
                }
            }
        }
    }

    /// Binds sockets for those of these wires that will lead from another host to this worker.
    pub(super) async fn prepare_wires(
        self: &Arc<Lab>,
        worker: usize,
        wires: impl Iterator<Item = &str>,
    ) -> Result<(), HttpError> {
        for wire in wires {
            let other = self.state().other_host_of(wire, worker);
            if let Some(other) = other {
                let crossing = self.crossing(wire, other, worker).await?;
                self.state().crossings.insert(wire.to_owned(), crossing);
            }
        }
        Ok(())
    }

    async fn crossing(
        self: &Arc<Lab>,
        wire: &str,
        first: usize,
        second: usize,
    ) -> Result<Crossing, HttpError> {
        let links = [
            self.link_of_worker(first).await?,
            self.link_of_worker(second).await?,
        ];
        let known = links
            .each_ref()
            .map(|link| link.as_deref().and_then(address_of));
        let Some(v6) = known.iter().flatten().next().map(IpAddr::is_ipv6) else {
            let names = links.iter().flatten().map(|link| link.name.as_str());
            let names = names.collect::<Vec<_>>().join(" nor of ");
            return Err(HttpError::conflict(format!(
                "wire {wire}: no address is known of host {names}"
            ))
            .hint("give the host its `address`, as the other side reaches it"));
        };
        let mut sides = Vec::new();
        for (worker, link, known) in [(first, &links[0], known[0]), (second, &links[1], known[1])] {
            let (socket, port) = match link {
                None => {
                    let (socket, port) = bind_here(v6)
                        .map_err(|error| HttpError::host("binding a UDP socket", error))?;
                    (Descriptor::Here(socket.into()), port)
                }
                Some(link) => {
                    let (number, port) = link.bind(v6).await.map_err(|why| {
                        HttpError::conflict(format!(
                            "wire {wire}: binding a UDP socket on host {}: {why}",
                            link.name
                        ))
                    })?;
                    (Descriptor::Socket(number), port)
                }
            };
            let known = known.filter(|address| address.is_ipv6() == v6);
            sides.push(Side {
                worker,
                socket,
                address: known.map(|address| SocketAddr::new(address, port)),
            });
        }
        let sides: Result<[Side; 2], _> = sides.try_into();
        Ok(Crossing(
            sides.unwrap_or_else(|_| unreachable!("two of two")),
        ))
    }

    /// Ends workers on hosts that are not the same any more, and the links to these.
    pub(super) async fn leave_hosts(
        self: &Arc<Lab>,
        new: &IndexMap<String, HostSpec>,
    ) -> Result<(), HttpError> {
        let left: Vec<(String, Arc<HostLink>)> = {
            let mut state = self.state();
            let hosts = std::mem::take(&mut state.hosts);
            let mut left = Vec::new();
            for (name, host) in hosts {
                match host {
                    Host::Connected(link) if new.get(&name) != Some(&link.spec) => {
                        left.push((name, link));
                    }
                    Host::Lost(_) if !new.contains_key(&name) => {}
                    host => drop(state.hosts.insert(name, host)),
                }
            }
            left
        };
        for (name, link) in left {
            let numbers: Vec<usize> = {
                let state = self.state();
                let workers = state.workers.iter().enumerate();
                let there = workers.filter(|(_, it)| it.host.as_ref() == Some(&name));
                there.map(|(number, _)| number).collect()
            };
            for number in numbers {
                self.retire(number).await?;
            }
            link.close().await;
        }
        Ok(())
    }

    /// Ends all agents, at once.
    pub(super) async fn end_hosts(&self) {
        let hosts = std::mem::take(&mut self.state().hosts);
        let links = hosts.into_values().filter_map(|host| match host {
            Host::Connected(link) => Some(link),
            _ => None,
        });
        let closing = links.map(|link| async move { link.close().await });
        futures_util::future::join_all(closing).await;
    }

    /// The workers on hosts that are lost.
    pub(super) fn lost_workers(&self) -> Vec<usize> {
        let state = self.state();
        let all = 0..state.workers.len();
        let lost = all
            .filter(|number| state.workers[*number].machines > 0 && state.is_on_lost_host(*number));
        lost.collect()
    }
}

/// A host's address for others.
fn address_of(link: &HostLink) -> Option<IpAddr> {
    link.spec.address.or(link.hello.address)
}

impl Host {
    fn is_link(&self, link: &Arc<HostLink>) -> bool {
        matches!(self, Host::Connected(own) if Arc::ptr_eq(own, link))
    }
}

impl State {
    pub(super) fn hosts_status(&self) -> Vec<HostStatus> {
        let status = |(name, spec): (&String, &HostSpec)| {
            let (state, error) = match self.hosts.get(name)? {
                Host::Connecting => (HostState::Connecting, None),
                Host::Connected(_) => (HostState::Connected, None),
                Host::Lost(why) => (HostState::Lost, Some(why.clone())),
            };
            let machines = self.spec.machines.values();
            Some(HostStatus {
                name: name.clone(),
                state,
                way: match &spec.ssh {
                    Some(ssh) => format!("ssh {ssh}"),
                    None => spec.command.join(" "),
                },
                error,
                machines: machines.filter(|it| it.host.as_ref() == Some(name)).count(),
            })
        };
        self.spec.hosts.iter().filter_map(status).collect()
    }

    pub(super) fn is_on_lost_host(&self, worker: usize) -> bool {
        let host = self.workers[worker].host.as_ref();
        let host = host.and_then(|name| self.hosts.get(name));
        matches!(host, Some(Host::Lost(_)))
    }

    /// The error for a request to a worker whose host is lost.
    pub(super) fn lost_host_of(&self, worker: usize) -> Option<HttpError> {
        let host = self.workers.get(worker)?.host.as_ref()?;
        match self.hosts.get(host) {
            Some(Host::Lost(_)) => self.link_to(host).err(),
            _ => None,
        }
    }

    fn no_host(&self, name: &str) -> HttpError {
        let names = self.spec.hosts.keys().map(String::as_str);
        HttpError::no("host", name, names, "in the lab's hosts")
    }

    /// The link to a host that is connected.
    pub(super) fn link_to(&self, name: &str) -> Result<Arc<HostLink>, HttpError> {
        match self.hosts.get(name) {
            Some(Host::Connected(link)) => Ok(link.clone()),
            Some(Host::Lost(why)) => Err(HttpError::conflict(why.clone())
                .hint(format!("vink lab up again brings host {name} back"))),
            _ => Err(HttpError::conflict(format!("host {name} is not connected"))),
        }
    }

    /// The worker on another host to which a wire leads that is about to lead to this one, too.
    fn other_host_of(&self, wire: &str, worker: usize) -> Option<usize> {
        let placement = self.wires.get(wire)?;
        if placement.workers.contains(&worker) || placement.uplink.is_some() {
            return None;
        }
        let used = |other: &&usize| placement.ends.values().any(|it| it == *other);
        let other = placement.workers.iter().find(used).copied()?;
        (self.workers[other].host != self.workers[worker].host).then_some(other)
    }

    /// Joins the halves of a wire on two hosts.
    pub(super) fn join_hosts(
        &mut self,
        wire: &str,
        first: usize,
        second: usize,
    ) -> Result<Vec<WorkerCmd>, HttpError> {
        let crossing = self.crossings.remove(wire);
        let crossing = crossing
            .filter(|Crossing(sides)| sides.iter().map(|side| side.worker).eq([first, second]));
        let Some(Crossing([a, b])) = crossing else {
            let error = format!("wire {wire} has changed meanwhile");
            return Err(HttpError::conflict(error).hint("try again"));
        };
        let [to_a, to_b] = [key()?, key()?];
        let keys = |send, receive| WireKeys { send, receive };
        let (at_a, at_b) = (a.address, b.address);
        let side = |side: Side, peer, keys| {
            let target = UplinkTarget::Host { peer, keys };
            join(wire, side.worker, target, vec![side.socket])
        };
        let mut commands = Vec::from(side(a, at_b, keys(to_b, to_a)));
        commands.extend(side(b, at_a, keys(to_a, to_b)));
        Ok(commands)
    }
}

/// A new key.
fn key() -> Result<[u8; 32], HttpError> {
    let mut key = [0; 32];
    match getrandom(&mut key, GetRandomFlags::empty()) {
        Ok(32) => Ok(key),
        Ok(_) => Err(HttpError::conflict("the host has too few random numbers")),
        Err(error) => Err(HttpError::host("getrandom", error.into())),
    }
}
