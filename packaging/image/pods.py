#!/usr/bin/env python3
"""Converts a Kubernetes manifest to files for `podman play kube`.

    pods.py FILE FOLDER IMAGE MODULE_IMAGE    IMAGE is the server's, and an init container has MODULE_IMAGE
    pods.py FILE FOLDER IMAGE                 IMAGE contains the module, so there is no init container

A Deployment becomes a pod. Each pod of a StatefulSet becomes a file FOLDER/NAME.yaml, with its volumes, and gets an address in
FOLDER/hosts, under the names that the services would give it. Everything else that podman supports goes to FOLDER/others.yaml. The pods
change only in images and names, and where podman needs another form. All names that podman uses begin with redislock-check-, so that they
never meet those of a user of the manifest here. A secret is read from a variable of the same name.
"""

import copy
import os
import pathlib
import sys

import yaml

NETWORK = "10.89.177"  # the network of packaging/image/group
APART = "redislock-check-"


def main(manifest, folder, image, module_image=None):
    documents = list(yaml.safe_load_all(pathlib.Path(manifest).read_text()))
    set_apart(documents)
    maps = [document for document in documents if document["kind"] == "ConfigMap"]
    others = maps + [document for document in documents if document["kind"] == "PersistentVolumeClaim"]
    pods = []
    for document in documents:
        if "template" not in document.get("spec", {}):
            continue
        spec = document["spec"]["template"]["spec"]
        for container in spec["containers"]:
            container["image"] = image
            # podman would open these ports on the machine, to everybody.
            container.pop("ports", None)
            # podman's versions differ in the secrets that they support, so pass secrets as variables.
            for variable in [each for each in container.get("env", []) if "valueFrom" in each]:
                container["env"].remove(variable)
                if variable["name"] in os.environ:
                    container["env"].append({"name": variable["name"], "value": os.environ[variable["name"]]})
        if module_image:
            spec["initContainers"][0]["image"] = module_image
        else:
            without_module(spec)
        if document["kind"] == "Deployment":
            others.append(pod_of(document))
        else:
            pods += [(document["spec"]["serviceName"], pod_of(document, f"-{ordinal}")) for ordinal in range(document["spec"]["replicas"])]
    hosts = [
        {"ip": f"{NETWORK}.{number}", "hostnames": [f"{pod['spec']['hostname']}.{service}", service]}
        for number, (service, pod) in enumerate(pods, start=10)
    ]
    pathlib.Path(folder, "hosts").write_text("".join(f"{host['ip']} {' '.join(host['hostnames'])}\n" for host in hosts))
    for _, pod in pods:
        pod["spec"]["hostAliases"] = hosts
        # podman finds a ConfigMap only in the same file.
        write(pathlib.Path(folder, f"{pod['spec']['hostname']}.yaml"), maps + [pod])
    write(pathlib.Path(folder, "others.yaml"), others)


def set_apart(value):
    """Renames the volumes: podman keeps the volumes of all pods in one namespace."""
    if isinstance(value, list):
        for each in value:
            set_apart(each)
    elif isinstance(value, dict):
        if value.get("kind") in ("ConfigMap", "PersistentVolumeClaim"):
            value["metadata"]["name"] = APART + value["metadata"]["name"]
        for key, each in value.items():
            if key in ("volumes", "volumeMounts"):
                for volume in each:
                    volume["name"] = APART + volume["name"]
            if key == "configMap":
                each["name"] = APART + each["name"]
            if key == "persistentVolumeClaim":
                each["claimName"] = APART + each["claimName"]
            set_apart(each)


def without_module(spec):
    del spec["initContainers"]
    for volumes in [spec["volumes"]] + [container["volumeMounts"] for container in spec["containers"]]:
        volumes[:] = [volume for volume in volumes if volume["name"] != f"{APART}module"]


def pod_of(workload, suffix=""):
    name = workload["metadata"]["name"] + suffix
    pod = {"apiVersion": "v1", "kind": "Pod"} | copy.deepcopy(workload["spec"]["template"])
    pod["metadata"]["name"], pod["spec"]["hostname"] = APART + name, name
    # Keep ended init containers, as a cluster does; otherwise podman removes them, sometimes too early.
    pod["metadata"]["annotations"] = {"io.podman.annotations.init.container.type": "always"}
    for claim in workload["spec"].get("volumeClaimTemplates", []):
        volume = APART + claim["metadata"]["name"]
        pod["spec"].setdefault("volumes", []).append(
            {"name": volume, "persistentVolumeClaim": {"claimName": f"{volume}-{name}"}}
        )
    return pod


def write(path, documents):
    path.write_text(yaml.safe_dump_all(documents))


main(*sys.argv[1:])
