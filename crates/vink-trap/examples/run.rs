fn main() {
    let a: Vec<String> = std::env::args().skip(1).collect();
    let image = vink_kernel::Image::open(&vink_kernel::find_image().unwrap()).unwrap();
    let mut kernel = vink_kernel::Kernel::boot(image, Default::default()).unwrap();
    let m = kernel.machine("m").unwrap();
    let mut w = vink_trap::Worker::new(kernel).unwrap();
    let up = w
        .spawn(
            m,
            vink_trap::Program::new("ip").args(["link", "set", "lo", "up"]),
        )
        .unwrap();
    w.wait(up).unwrap();
    let p = w
        .spawn(m, vink_trap::Program::new(&a[0]).args(&a[1..]))
        .unwrap();
    let s = w.wait(p);
    if std::env::var_os("STATS").is_some() {
        eprintln!("{:?}", w.statistics().trapped().collect::<Vec<_>>());
    }
    match s {
        Ok(s) => std::process::exit(s.code()),
        Err(e) => {
            eprintln!("vink: {e}");
            std::process::exit(e.exit_status())
        }
    }
}
