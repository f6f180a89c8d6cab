//! Compiles the protocol without `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto/fleet.proto");
    let files = protox::compile(["proto/fleet.proto"], ["proto"])?;
    tonic_prost_build::configure().bytes(".").compile_fds(files)?;
    Ok(())
}
