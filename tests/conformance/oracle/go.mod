// What is required, and in which versions, is said by tools/controlplane/go.mod alone: build with `-modfile` of it, as
// build_oracle.py does. This file only marks the folder as a module.
module trireme.dev/oracle

go 1.26.0
