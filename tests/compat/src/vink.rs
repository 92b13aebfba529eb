//! Vink's side: two machines on a wire, and programs trapped for them.

use std::time::Instant;

use vink_kernel::{find_image, Config, Image, Kernel};
use vink_lab::{wire, Machine, Network};
use vink_trap::{Program, ProgramId, Stdio, Worker};

use crate::side::{Command, End, Ends, Job};
use crate::BoxError;

/// A worker and what it runs.
pub(crate) struct Vink {
    worker: Worker,
    machines: Vec<Machine>,
    programs: Vec<ProgramId>,
    /// A library that each program begins with.
    library: Option<String>,
}

impl Vink {
    /// Boots a kernel and makes the machines.
    pub fn new() -> Result<Vink, BoxError> {
        let config = Config {
            arena_bytes: 256 << 20,
            ..Config::default()
        };
        let mut kernel = Kernel::boot(Image::open(&find_image()?)?, config)?;
        let mut machines = Vec::new();
        let mut addresses: Vec<Vec<Network>> = Vec::new();
        for end in End::BOTH {
            machines.push(Machine::new(&mut kernel, end.name())?);
            let all = end.addresses().map(str::parse).into_iter();
            addresses.push(all.collect::<Result<_, _>>()?);
        }
        let [a, b] = [0, 1].map(|i| vink_lab::End {
            machine: &machines[i],
            interface: "eth0",
            addresses: &addresses[i],
        });
        wire(&mut kernel, a, b)?;
        Ok(Vink {
            worker: Worker::new(kernel)?,
            machines,
            programs: Vec::new(),
            library: None,
        })
    }

    /// The same with `vink run --calls shared`'s library under each program, which is `$VINK_QUICK`.
    pub fn shared() -> Result<Vink, BoxError> {
        let mut vink = Vink::new()?;
        if !vink.worker.allow_shared_rings() {
            return Err("--calls shared needs two processors, one of them for the stack".into());
        }
        vink.library = Some(std::env::var("VINK_QUICK")?);
        Ok(vink)
    }

    /// The same, as `vink run` does by default.
    pub fn auto() -> Result<Vink, BoxError> {
        let mut vink = Vink::new()?;
        if vink.worker.allow_shared_rings_when_often() {
            vink.library = Some(std::env::var("VINK_QUICK")?);
        }
        Ok(vink)
    }
}

impl Ends for Vink {
    fn start(&mut self, end: End, command: Command) -> Result<Job, BoxError> {
        let mut program = Program::new(command.argv[0])
            .args(&command.argv[1..])
            .stdin(Stdio::Null)
            .stdout(Stdio::Fd(command.out.into()))
            .stderr(Stdio::Fd(command.err.into()))
            .new_session();
        if let Some(library) = &self.library {
            program = program.env("LD_PRELOAD", library);
        }
        let machine = self.machines[end as usize].id;
        self.programs.push(self.worker.spawn(machine, program)?);
        Ok(self.programs.len() - 1)
    }

    fn status(&mut self, job: Job) -> Result<Option<i32>, BoxError> {
        Ok(self.worker.status(self.programs[job])?.map(|s| s.code()))
    }

    fn signal(&mut self, job: Job, signal: i32) -> Result<(), BoxError> {
        Ok(self.worker.signal(self.programs[job], signal)?)
    }

    fn wait(&mut self, jobs: &[Job], until: Instant) -> Result<(), BoxError> {
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            for job in jobs {
                if self.status(*job)?.is_some() {
                    return Ok(());
                }
            }
            self.worker.step(Some(left))?;
        }
        Ok(())
    }

    fn clear(&mut self) -> Result<(), BoxError> {
        for program in self.programs.drain(..) {
            self.worker.kill(program)?;
        }
        Ok(())
    }
}
