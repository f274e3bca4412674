// Also change: tools/bench/noop_plugin.py, tools/bench/noop_plugins/go/main.go,
// tools/bench/noop_plugins/java/src/main/java/dev/trireme/bench/Noop.java,
// tools/bench/noop_plugins/typescript/src/noop.ts (the same plugin).

//! Serves a plugin that lets every node pass and scores all alike: what calling a plugin costs, without its own work.
//! DEPENDS_ON says what it declares, NODE or NODE_PODS.

use trireme_sdk::{ArgumentErrors, Call, Configuration, Dependency, Info, Node, Plugin, Point, Status, Verdict, async_trait};

struct Noop;

#[async_trait]
impl Plugin for Noop {
    fn filter(&self, _: &Call, _: &Node) -> Verdict {
        Verdict::Pass
    }

    fn score(&self, _: &Call, _: &Node) -> Result<i64, Status> {
        Ok(50)
    }
}

fn main() -> std::process::ExitCode {
    let node_pods = std::env::var("DEPENDS_ON").is_ok_and(|value| value == "NODE_PODS");
    let info = Info::new("Noop", [Point::Filter, Point::Score])
        .score_copies(true)
        .depends_on(if node_pods { Dependency::NodePods } else { Dependency::Node })
        .pod_fields(["metadata.namespace"]);
    trireme_sdk::main_with(info, |_: Configuration| Ok::<_, ArgumentErrors>(Noop))
}
