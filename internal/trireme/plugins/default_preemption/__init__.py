"""DefaultPreemption: evicts less important pods so that a pod or a pod group fits."""
