#!/usr/bin/env python3
"""Makes of a Kubernetes manifest what `podman play kube` can run.

    pods.py FILE FOLDER IMAGE MODULE_IMAGE    with IMAGE for the server's, and an init container with MODULE_IMAGE
    pods.py FILE FOLDER IMAGE                 the module is in IMAGE: without the init container

A Deployment becomes a pod. Each pod of a StatefulSet becomes a file FOLDER/NAME.yaml of its own, with its volumes, and an address of its own in FOLDER/hosts, under
the names that the services would give it. Everything else that podman knows goes to FOLDER/others.yaml. Beside images and names,
nothing of the pods changes but what podman takes in a way of its own.
"""

import copy
import pathlib
import sys

import yaml

NETWORK = "10.89.177"  # of packaging/image/group


def main(manifest, folder, image, module_image=None):
    documents = list(yaml.safe_load_all(pathlib.Path(manifest).read_text()))
    maps = [document for document in documents if document["kind"] == "ConfigMap"]
    others = maps + [document for document in documents if document["kind"] == "PersistentVolumeClaim"]
    pods = []
    for document in documents:
        if "template" not in document.get("spec", {}):
            continue
        spec = document["spec"]["template"]["spec"]
        for container in spec["containers"]:
            container["image"] = image
            # podman would open them on the machine, to everybody.
            container.pop("ports", None)
        if module_image:
            spec["initContainers"][0]["image"] = module_image
        else:
            without_module(spec)
        if document["kind"] == "Deployment":
            others.append(pod_of(document))
        else:
            pods += [(document["spec"]["serviceName"], pod_of(document, f"-{ordinal}")) for ordinal in range(document["spec"]["replicas"])]
    hosts = [
        {"ip": f"{NETWORK}.{number}", "hostnames": [f"{pod['metadata']['name']}.{service}", service]}
        for number, (service, pod) in enumerate(pods, start=10)
    ]
    pathlib.Path(folder, "hosts").write_text("".join(f"{host['ip']} {' '.join(host['hostnames'])}\n" for host in hosts))
    for _, pod in pods:
        pod["spec"]["hostAliases"] = hosts
        # podman finds a ConfigMap only in the file that uses it.
        write(pathlib.Path(folder, f"{pod['metadata']['name']}.yaml"), maps + [pod])
    write(pathlib.Path(folder, "others.yaml"), others)


def without_module(spec):
    del spec["initContainers"]
    spec["volumes"] = [volume for volume in spec["volumes"] if volume["name"] != "module"]
    for container in spec["containers"]:
        container["volumeMounts"] = [mount for mount in container["volumeMounts"] if mount["name"] != "module"]


def pod_of(workload, suffix=""):
    name = workload["metadata"]["name"] + suffix
    pod = {"apiVersion": "v1", "kind": "Pod"} | copy.deepcopy(workload["spec"]["template"])
    pod["metadata"]["name"] = pod["spec"]["hostname"] = name
    # As in a cluster; otherwise podman removes them when they are done, and may be too early.
    pod["metadata"]["annotations"] = {"io.podman.annotations.init.container.type": "always"}
    for claim in workload["spec"].get("volumeClaimTemplates", []):
        volume = claim["metadata"]["name"]
        pod["spec"].setdefault("volumes", []).append(
            {"name": volume, "persistentVolumeClaim": {"claimName": f"{volume}-{name}"}}
        )
    return pod


def write(path, documents):
    path.write_text(yaml.safe_dump_all(documents))


main(*sys.argv[1:])
