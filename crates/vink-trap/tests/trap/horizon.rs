//! A virtual clock and its horizon.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use vink_kernel::{Clock, Config, Image, Kernel};
use vink_trap::Worker;

use crate::lab::image_path;

const SECOND: u64 = 1_000_000_000;

#[test]
fn time_goes_as_far_as_it_may() {
    let config = Config {
        clock: Clock::Virtual,
        ..Config::default()
    };
    let image = Image::open(&image_path()).unwrap();
    let mut kernel = Kernel::boot(image, config).unwrap();
    let machine = kernel.machine("sleeper").unwrap();
    let slept = Rc::new(RefCell::new(0));
    let count = slept.clone();
    kernel
        .fiber(machine, move |fiber| {
            let second = libc::timespec {
                tv_sec: 1,
                tv_nsec: 0,
            };
            for _ in 0..10 {
                let args = [&raw const second as u64, 0, 0, 0, 0, 0];
                assert_eq!(fiber.call(libc::SYS_nanosleep, args), 0);
                *count.borrow_mut() += 1;
            }
            0
        })
        .unwrap();
    let mut worker = Worker::new(kernel).unwrap();
    for (horizon, seconds) in [
        (0, 0),
        (5 * SECOND / 2, 2),
        // One that ends at 4 s may be reported then, or by its slack later.
        (4 * SECOND - 1, 3),
        (3600 * SECOND, 10),
    ] {
        worker.set_horizon(horizon);
        worker.run_until(|worker| worker.is_idle()).unwrap();
        assert_eq!(worker.kernel().now(), horizon);
        assert_eq!(*slept.borrow(), seconds, "until {horizon}");
        // And stays there.
        worker.step(Some(Duration::ZERO)).unwrap();
        assert_eq!(worker.kernel().now(), horizon);
    }
}
