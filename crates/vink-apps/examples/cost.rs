//! What apps cost in memory: resident kB of idle servers and of flows, as docs/apps.md has them.

use std::error::Error;
use std::fs;

use vink_apps::{Apps, State};
use vink_kernel::{find_image, Config, Image, Kernel, MachineId};
use vink_lab::Machine;

const COUNT: u64 = 1000;

struct Place {
    kernel: Kernel,
    apps: Apps,
    machine: MachineId,
}

impl Place {
    fn new() -> Result<Place, BoxError> {
        let config = Config {
            arena_bytes: 1 << 30,
            ..Config::default()
        };
        let mut kernel = Kernel::boot(Image::open(&find_image()?)?, config)?;
        let machine = Machine::new(&mut kernel, "alone")?.id;
        Ok(Place {
            kernel,
            apps: Apps::new(),
            machine,
        })
    }

    fn start(&mut self, line: &str) -> Result<(), BoxError> {
        let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        self.apps.start(&mut self.kernel, self.machine, &words)?;
        Ok(())
    }

    /// Runs until all are ready.
    fn settle(&mut self) -> Result<(), BoxError> {
        loop {
            let deadline = self.kernel.run()?;
            while self.kernel.next_event().is_some() {}
            let list = self.apps.list();
            if let Some(ended) = list.iter().find(|s| s.state != State::Running) {
                return Err(format!("{ended:?}").into());
            }
            if list.iter().all(|status| status.ready) {
                return Ok(());
            }
            self.kernel.wait(deadline.ok_or("all wait")?);
        }
    }

    fn resident(&mut self) -> Result<f64, BoxError> {
        self.kernel.run()?;
        let statm = fs::read_to_string("/proc/self/statm")?;
        let pages: f64 = statm.split(' ').nth(1).ok_or("statm")?.parse()?;
        Ok(pages * 4.096)
    }
}

type BoxError = Box<dyn Error>;

fn main() -> Result<(), BoxError> {
    let mut place = Place::new()?;
    // What is made once.
    place.start("echoserver -p 9999")?;
    place.start("sink")?;
    place.settle()?;
    let before = place.resident()?;
    for n in 0..COUNT {
        place.start(&format!("echoserver -t -p {}", 10_000 + n))?;
    }
    place.settle()?;
    let servers = place.resident()?;
    println!(
        "an idle echoserver: {:.1} kB",
        (servers - before) / COUNT as f64
    );
    place.start(&format!("source -P {COUNT} -r 1kbit -t 1h 127.0.0.1"))?;
    place.settle()?;
    let flows = place.resident()?;
    println!(
        "an idle TCP flow, both ends: {:.1} kB",
        (flows - servers) / COUNT as f64
    );
    Ok(())
}
