//! Writes the Rust code of a descriptor set: `trireme-sdk-generator DESCRIPTOR_SET OUTPUT_DIR`.

use prost::Message;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(descriptors), Some(output)) = (arguments.next(), arguments.next()) else {
        return Err("usage: trireme-sdk-generator DESCRIPTOR_SET OUTPUT_DIR".into());
    };
    let set = prost_types::FileDescriptorSet::decode(std::fs::read(descriptors)?.as_slice())?;
    tonic_prost_build::configure().out_dir(output).compile_fds(set)?;
    Ok(())
}
