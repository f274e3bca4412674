"""What developers run besides tests: benchmarks, soaks, chaos, fuzzing, mutations, and a real control plane."""
