// Package crds imports what definitions are made from, so that `go mod tidy` keeps the versions chosen in go.mod.
package crds

import (
	// Go types, from which controller-gen writes the definitions.
	_ "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	_ "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	_ "volcano.sh/apis/pkg/apis/bus/v1alpha1"
	_ "volcano.sh/apis/pkg/apis/flow/v1alpha1"
	_ "volcano.sh/apis/pkg/apis/nodeinfo/v1alpha1"
	_ "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	_ "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	// Modules that publish the definitions themselves as files.
	_ "github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/v2beta1"
	_ "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	_ "istio.io/api/networking/v1"
	_ "sigs.k8s.io/gateway-api/apis/v1"
)
