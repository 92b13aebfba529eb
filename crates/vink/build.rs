//! The functions of vink/pod.h are exported: a pod that is loaded into a process finds them there.

fn main() {
    for function in ["emit", "log", "now", "count", "timer"] {
        println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol=vink_{function}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
