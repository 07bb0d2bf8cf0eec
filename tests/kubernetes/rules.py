"""Rules for the manifests beyond Kubernetes' schemas. Each rule takes the rendered objects and yields
the faults that it finds, as texts that name the object."""

import re

from cluster import Cluster, MEBIBYTE, named_port, selects, size

LABEL = "app.kubernetes.io/component"
# Memory of the process (docs/operations.md), and what the alert GeneRegistryMemory allows beyond the caches.
REST_BYTES = 60_000_000
ALERT_BYTES = 256 * MEBIBYTE
# What a connection takes at most (docs/operations.md).
CONNECTION_BYTES = 390_000


def no_secrets(cluster: Cluster):
    for item in cluster.objects:
        if item["kind"] == "Secret":
            yield f"Secret {item['metadata']['name']}: secrets are referred to, never here"
    for text in cluster.strings():
        if re.search(r"://[^/\s\"]*:[^/\s\"]*@", text):
            yield f"a URL with a password: {text.strip()[:40]}"
    for workload in cluster.workloads:
        for variable in workload.container.get("env", []):
            if variable["name"].endswith(("URL", "PASSWORD")) or "valueFrom" in variable:
                yield f"{workload.name}: {variable['name']} is a variable, not a file of a Secret"
        for volume in workload.pod.get("volumes", []):
            if volume.get("secret", {"defaultMode": 0o440}).get("defaultMode") != 0o440:
                yield f"{workload.name}: everybody may read the files of {volume['name']}"


def redis_password(cluster: Cluster):
    variables = {variable["name"]: variable.get("value", "") for variable in cluster.api.container["env"]}
    file = variables.get("GENE_REGISTRY__REDIS__PASSWORD_FILE", "")
    if cluster.mounted(cluster.api, file) == file:
        yield f"{cluster.api.name}: it starts without a password for Redis"


def hardened(cluster: Cluster):
    for workload in cluster.workloads:
        pod, own = workload.pod, workload.container.get("securityContext", {})
        whole = pod.get("securityContext", {})
        wanted = {
            "runAsNonRoot": whole.get("runAsNonRoot") is True,
            "runAsUser": whole.get("runAsUser", 0) > 0,
            "seccompProfile": whole.get("seccompProfile") == {"type": "RuntimeDefault"},
            "allowPrivilegeEscalation": own.get("allowPrivilegeEscalation") is False,
            "readOnlyRootFilesystem": own.get("readOnlyRootFilesystem") is True,
            "capabilities": own.get("capabilities") == {"drop": ["ALL"]},
            "automountServiceAccountToken": pod.get("automountServiceAccountToken") is False,
            "enableServiceLinks": pod.get("enableServiceLinks") is False,
        }
        yield from (f"{workload.name}: {key} is not as it should be" for key, good in wanted.items() if not good)
        if not cluster.named("ServiceAccount", pod.get("serviceAccountName")):
            yield f"{workload.name}: there is no ServiceAccount {pod.get('serviceAccountName')}"
    for account in cluster.of("ServiceAccount"):
        if account.get("automountServiceAccountToken") is not False:
            yield f"ServiceAccount {account['metadata']['name']}: automountServiceAccountToken is not off"


def selectors(cluster: Cluster):
    for workload in cluster.workloads:
        selector = workload.spec.get("selector")
        if selector and not selects(selector, workload.labels):
            yield f"{workload.name}: its selector does not match its own pods"
        for spread in workload.pod.get("topologySpreadConstraints", []):
            if not selects(spread["labelSelector"], workload.labels):
                yield f"{workload.name}: its spread over {spread['topologyKey']} counts other pods"
    for kind, path in (("Service", "selector"), ("PodDisruptionBudget", "selector")):
        for item in cluster.of(kind):
            selector = item["spec"][path]
            selector = {"matchLabels": selector} if kind == "Service" else selector
            chosen = [w.labels.get(LABEL) for w in cluster.workloads if selects(selector, w.labels)]
            if chosen != ["api"]:
                yield f"{kind} {item['metadata']['name']}: its selector matches {chosen}, not the replicas alone"
    policies = cluster.of("NetworkPolicy")
    for workload in cluster.workloads:
        chosen = [p for p in policies if selects(p["spec"]["podSelector"], workload.labels)]
        if not chosen:
            yield f"{workload.name}: no NetworkPolicy matches it"
        if any(set(p["spec"]["policyTypes"]) != {"Ingress", "Egress"} for p in chosen):
            yield f"{workload.name}: its NetworkPolicy is not about both ways"


def ports(cluster: Cluster):
    api = cluster.api
    for name, key in (("http", "server.bind"), ("ops", "ops.bind")):
        address, port = cluster.setting(key).rsplit(":", 1)
        if named_port(api.container, name) != int(port):
            yield f"{api.name}: port {name} is not that of {key}, {port}"
        if address.startswith("127.") or address == "[::1]":
            yield f"{api.name}: {key} is {address}, which nothing outside the pod reaches"
    for service in cluster.of("Service"):
        for port in service["spec"]["ports"]:
            if named_port(api.container, port["targetPort"]) is None:
                yield f"Service {service['metadata']['name']}: there is no port {port['targetPort']}"
    allowed = {
        port["port"]
        for policy in cluster.of("NetworkPolicy") if selects(policy["spec"]["podSelector"], api.labels)
        for rule in policy["spec"].get("ingress", [])
        for port in rule["ports"]
    }
    if allowed != {"http", "ops"}:
        yield f"NetworkPolicy: ports {sorted(allowed, key=str)} are open, not http and ops"


def probes(cluster: Cluster):
    api = cluster.api
    wanted = {"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz"}
    for probe, path in wanted.items():
        asked = api.container.get(probe, {}).get("httpGet", {})
        if asked.get("path") != path or asked.get("port") != "ops":
            yield f"{api.name}: {probe} does not ask {path} of port ops"
    for workload in cluster.workloads:
        if workload.kind == "Deployment" and not wanted.keys() <= workload.container.keys():
            yield f"{workload.name}: nobody asks whether it works"
    start = api.container.get("startupProbe", {})
    if start.get("periodSeconds", 10) * start.get("failureThreshold", 3) < 15:
        yield f"{api.name}: startupProbe gives it less than 15 s"


def shutdown(cluster: Cluster):
    grace = cluster.api.pod.get("terminationGracePeriodSeconds", 30) * 1000
    drain, finish = int(cluster.setting("server.drain_ms")), int(cluster.setting("server.grace_ms"))
    if grace < drain + finish + 5000:
        yield f"terminationGracePeriodSeconds is not 5 s above server.drain_ms + server.grace_ms, {drain} + {finish}"
    if drain < 5000:
        yield f"server.drain_ms is {drain}: clients of a Service need seconds to notice that a pod ends"


def scaling(cluster: Cluster):
    api, (scaler,) = cluster.api, cluster.of("HorizontalPodAutoscaler")
    min_replicas, max_replicas = scaler["spec"]["minReplicas"], scaler["spec"]["maxReplicas"]
    if scaler["spec"]["scaleTargetRef"]["name"] != api.name or "replicas" in api.spec:
        yield "HorizontalPodAutoscaler: the number of replicas is not its own"
    if "cpu" not in api.container["resources"].get("requests", {}):
        yield f"{api.name}: without a request for the processor there is nothing to scale by"
    if scaler["spec"]["behavior"]["scaleDown"]["stabilizationWindowSeconds"] < 300:
        yield "HorizontalPodAutoscaler: it scales down within five minutes"
    rolling = api.spec["strategy"]["rollingUpdate"]
    if rolling["maxUnavailable"] != 0 or rolling["maxSurge"] < 1:
        yield f"{api.name}: a rollout takes replicas away before new ones are ready"
    if int(cluster.setting("rate_limit.replicas")) < max_replicas + rolling["maxSurge"]:
        yield f"rate_limit.replicas is below maxReplicas + maxSurge, {max_replicas} + {rolling['maxSurge']}"
    (budget,) = cluster.of("PodDisruptionBudget")
    budget = budget["spec"]
    if budget.get("maxUnavailable", 1) >= min_replicas or budget.get("minAvailable", 0) >= min_replicas:
        yield f"PodDisruptionBudget: with {min_replicas} replicas it lets none or all of them go"
    if budget.get("maxUnavailable") == 0:
        yield "PodDisruptionBudget: no node can ever be drained"


def memory(cluster: Cluster):
    api, caches = cluster.api, int(cluster.setting("cache.local_max_bytes"))
    resources = api.container["resources"]
    if size(resources["requests"]["memory"]) < caches + REST_BYTES:
        yield f"{api.name}: it asks for less memory than it takes at rest with full caches"
    limit = size(resources.get("limits", {}).get("memory", "0"))
    if limit < 2 * caches + ALERT_BYTES:
        yield f"{api.name}: its limit of memory lies below that of the alert GeneRegistryMemory"
    connections = int(cluster.setting("server.max_connections")) * CONNECTION_BYTES
    if limit < caches + REST_BYTES + connections:
        yield f"{api.name}: its connections may take more memory than its limit"


def images(cluster: Cluster):
    for workload in cluster.workloads:
        tag = workload.container["image"].rpartition(":")[2]
        if tag != cluster.version:
            yield f"{workload.name}: the image's tag is {tag}, this version is {cluster.version}"


def commands(cluster: Cluster):
    for workload in cluster.workloads:
        if fault := cluster.refused(workload.container.get("args", []) + ["--help"]):
            yield f"{workload.name}: its arguments are refused: {fault}"
        # It needs no stores, which a configuration must name.
        if workload.labels.get(LABEL) == "canary":
            continue
        if fault := cluster.refused(["config", "check", *cluster.config_arguments(workload)], workload):
            yield f"{workload.name}: its configuration is refused: {fault}"


RULES = [commands, no_secrets, redis_password, hardened, selectors, ports, probes, shutdown, scaling, memory, images]
