//! Which GPU of a node a model goes to: the one where the least memory is left over (best fit).

use std::collections::HashMap;

/// Memory, in MiB.
pub type Mebibytes = u64;

/// The GPUs of one node: what is free on each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpus {
    free: Vec<Mebibytes>,
}

impl Gpus {
    /// So many GPUs with so much memory each.
    pub fn new(count: usize, memory: Mebibytes) -> Self {
        Self { free: vec![memory; count] }
    }

    /// The GPU for a model: the fullest one that has room for it, of equal ones the first.
    pub fn choose(&self, model: Mebibytes) -> Option<usize> {
        let fitting = self.free.iter().enumerate().filter(|(_, free)| **free >= model);
        fitting.min_by_key(|(_, free)| **free).map(|(gpu, _)| gpu)
    }

    /// Takes the memory of a GPU; false where it has too little.
    pub fn take(&mut self, gpu: usize, model: Mebibytes) -> bool {
        match self.free.get_mut(gpu) {
            Some(free) if *free >= model => {
                *free -= model;
                true
            }
            _ => false,
        }
    }

    /// How many more copies of the model fit, on all GPUs.
    pub fn room(&self, model: Mebibytes) -> u64 {
        self.free.iter().map(|free| free / model.max(1)).sum()
    }

    /// What is left on a GPU.
    pub fn left(&self, gpu: usize) -> Mebibytes {
        self.free.get(gpu).copied().unwrap_or(0)
    }
}

/// The GPUs of a node with the models that are on it: those whose GPU is known first, then the others, the largest first.
/// The order of `models` does not matter. A model that fits nowhere any more is left out.
pub fn pack(mut gpus: Gpus, models: &[(String, Mebibytes)], known: &HashMap<String, usize>) -> Gpus {
    let mut others: Vec<&(String, Mebibytes)> = Vec::new();
    for model in models {
        match known.get(&model.0) {
            Some(&gpu) if gpus.take(gpu, model.1) => {}
            _ => others.push(model),
        }
    }
    others.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    for (_, memory) in others {
        if let Some(gpu) = gpus.choose(*memory) {
            gpus.take(gpu, *memory);
        }
    }
    gpus
}

/// Memory as Kubernetes writes it: `24Gi`, `500Mi`.
pub fn parse(text: &str) -> Option<Mebibytes> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let number: u64 = number.parse().ok()?;
    match unit {
        "Mi" => Some(number),
        "Gi" => number.checked_mul(1024),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models(memory: &[u64]) -> Vec<(String, u64)> {
        memory.iter().enumerate().map(|(at, memory)| (format!("pod-{at}"), *memory)).collect()
    }

    /// A small model on an empty GPU keeps a large one from ever finding room.
    #[test]
    fn a_model_goes_to_the_fullest_gpu_that_has_room() {
        let gpus = pack(Gpus::new(3, 80), &models(&[40, 60]), &HashMap::new());
        assert_eq!((gpus.choose(20), gpus.choose(30), gpus.choose(70), gpus.choose(81)), (Some(0), Some(1), Some(2), None));
        assert_eq!((gpus.room(20), gpus.room(40), gpus.room(81)), (1 + 2 + 4, 1 + 2, 0));
    }

    /// Models do not move: what was reserved decides, also where best fit would put them elsewhere.
    #[test]
    fn a_known_gpu_comes_before_best_fit() {
        let known = HashMap::from([("pod-1".to_string(), 2)]);
        let gpus = pack(Gpus::new(3, 80), &models(&[60, 30]), &known);
        assert_eq!((gpus.left(0), gpus.left(1), gpus.left(2)), (20, 80, 50));
    }

    /// Filter's answer must not depend on the order in which pods come.
    #[test]
    fn the_order_of_models_does_not_matter() {
        let (some, mut reversed) = (models(&[10, 70, 30, 50, 20]), models(&[10, 70, 30, 50, 20]));
        reversed.reverse();
        let of = |models: &[(String, u64)]| pack(Gpus::new(3, 80), models, &HashMap::new());
        assert_eq!(of(&some), of(&reversed));
    }

    /// What people write must be read, or refused: never be another amount.
    #[test]
    fn memory_is_read_as_kubernetes_writes_it() {
        for (text, memory) in
            [("24Gi", Some(24 * 1024)), ("500Mi", Some(500)), ("24", None), ("24G", None), ("", None), ("-1Gi", None)]
        {
            assert_eq!(parse(text), memory, "{text}");
        }
    }
}
