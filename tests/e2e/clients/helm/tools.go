//go:build tools

// Package tools pins the Helm that is built for the test.
package tools

import _ "helm.sh/helm/v4/cmd/helm"
