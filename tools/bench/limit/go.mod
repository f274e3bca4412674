module trireme.dev/limit

go 1.26.0
