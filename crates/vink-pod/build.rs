//! Has the pods' process export what `vink/pod.h` declares, and abort(3), which it has for them.

fn main() {
    for name in [
        "vink_emit",
        "vink_log",
        "vink_now",
        "vink_count",
        "vink_timer",
        "abort",
    ] {
        println!("cargo:rustc-link-arg-bin=vink-pod-process=-Wl,--export-dynamic-symbol={name}");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
