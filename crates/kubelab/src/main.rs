//! `kubelab`: a Kubernetes cluster for developers. See `make k8s`.

fn main() {}
