//! What a dropped kernel leaves in the process: nothing. Alone in its process, so that it can look.

mod common;

use common::{one_machine, Caller, Task};
use vink_abi::{VINK_CALL_TEST, VINK_TEST_BUG};
use vink_kernel::{Config, Error};

/// Mappings, image mappings, threads.
fn census() -> (usize, usize, usize) {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("/proc/self/maps");
    let threads = std::fs::read_dir("/proc/self/task").expect("/proc/self/task");
    (
        maps.lines().count(),
        maps.matches("libvink").count(),
        threads.count(),
    )
}

#[test]
fn dropped_kernels_leave_no_mapping_and_no_thread() {
    let round = |kill: bool| {
        let (mut kernel, machine) = one_machine(Config::default());
        let fiber = kernel.fiber(machine, |mut fiber: &vink_kernel::Fiber| {
            fiber.listen(80);
            0
        });
        common::finish_task(&mut kernel, fiber.expect("a fiber"));
        let task = kernel.task(machine).expect("a task");
        Task(&mut kernel, task).listen(81);
        if kill {
            let args = common::six(&[VINK_TEST_BUG]);
            let result = kernel.call(task, VINK_CALL_TEST.into(), args);
            assert!(matches!(result, Err(Error::Panic(_))));
        }
        census().1
    };
    assert!(
        round(false) > 0 && round(true) > 0,
        "the image is seen while it is loaded"
    );
    let (maps, images, threads) = census();
    assert_eq!(images, 0);
    for number in 0..30 {
        round(number % 3 == 0);
    }
    let after = census();
    assert_eq!((after.1, after.2), (0, threads));
    // The allocator's own may come and go.
    assert!(after.0 <= maps + 5, "{maps} mappings became {}", after.0);
}
