"""What a cluster does on its own: kube-controller-manager and kube-scheduler, in the API server's process.

One file a controller. Each looks at the present state of one thing and takes a step, so that a step that is done twice
does no harm; changes in the store only say where to look again.
"""
