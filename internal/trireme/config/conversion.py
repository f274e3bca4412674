"""Converts between a decoded configuration and the dataclasses of `model`, both ways.

To the model once defaults are filled in; back, for `--write-config-to` and `/configz`, with every field written out.
The result is what kube-scheduler writes for the same configuration, edge cases included: an unset weight is 0.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from trireme.config.model import (
    API_VERSION,
    KIND,
    ClientConnection,
    Extender,
    LeaderElection,
    ManagedResource,
    Plugin,
    PluginConfig,
    Plugins,
    PluginSet,
    Profile,
    SchedulerConfiguration,
)
from trireme.config.scheduler_schema import ARGS, CONFIGURATION, MULTI_POINT
from trireme.framework.plugin_spec import ExtensionPoint
from trireme_kube.apimachinery import json_document
from trireme_kube.apimachinery.golang import Duration
from trireme_kube.apimachinery.json_document import Number, Object
from trireme_kube.apimachinery.strict_decoding import encode
from trireme_kube.componentbase.tls.client_tls import ClientTLS

Value = Mapping[str, Any]


def to_model(value: Value) -> SchedulerConfiguration:
    """Make the model from a decoded value with defaults."""
    return SchedulerConfiguration(
        api_version=API_VERSION,
        parallelism=value["parallelism"],
        leader_election=_make_leader_election(value["leaderElection"]),
        client_connection=_make_client_connection(value["clientConnection"]),
        enable_profiling=value["enableProfiling"],
        enable_contention_profiling=value.get("enableContentionProfiling", False),
        percentage_of_nodes_to_score=value["percentageOfNodesToScore"],
        pod_initial_backoff_seconds=value["podInitialBackoffSeconds"],
        pod_max_backoff_seconds=value["podMaxBackoffSeconds"],
        profiles=tuple(_make_profile(profile) for profile in value["profiles"]),
        extenders=tuple(_make_extender(extender) for extender in value.get("extenders") or ()),
        delay_cache_until_active=value.get("delayCacheUntilActive", False),
    )


def _make_leader_election(value: Value) -> LeaderElection:
    """Make the model of leader election."""
    return LeaderElection(
        leader_elect=value["leaderElect"],
        lease_duration=value["leaseDuration"],
        renew_deadline=value["renewDeadline"],
        retry_period=value["retryPeriod"],
        resource_lock=value["resourceLock"],
        resource_name=value["resourceName"],
        resource_namespace=value["resourceNamespace"],
    )


def _make_client_connection(value: Value) -> ClientConnection:
    """Make the model of the connection to the API server."""
    return ClientConnection(
        kubeconfig=value.get("kubeconfig", ""),
        accept_content_types=value.get("acceptContentTypes", ""),
        content_type=value["contentType"],
        qps=value["qps"],
        burst=value["burst"],
    )


def _make_plugin_list(values: list[Value] | None) -> tuple[Plugin, ...] | None:
    """Make the plugins of a list; None: it is unset."""
    if values is None:
        return None
    return tuple(Plugin(plugin.get("name", ""), plugin.get("weight", 0)) for plugin in values)


def _make_plugin_set(value: Value | None) -> PluginSet:
    """Make the plugins enabled and disabled at one point."""
    value = value or {}
    return PluginSet(_make_plugin_list(value.get("enabled")), _make_plugin_list(value.get("disabled")))


def _make_profile(value: Value) -> Profile:
    """Make the model of a profile."""
    plugins = value["plugins"]
    return Profile(
        scheduler_name=value.get("schedulerName", ""),
        percentage_of_nodes_to_score=value.get("percentageOfNodesToScore"),
        plugins=Plugins(
            multi_point=_make_plugin_set(plugins.get(MULTI_POINT)),
            points=MappingProxyType({point: _make_plugin_set(plugins.get(point.value)) for point in ExtensionPoint}),
        ),
        plugin_config=tuple(_make_plugin_config(config) for config in value["pluginConfig"]),
    )


def _make_plugin_config(value: Value) -> PluginConfig:
    """Make the arguments of a plugin; those of a plugin that is not in-tree stay as they are."""
    name = value.get("name", "")
    schema = ARGS.get(f"{name}Args")
    args = value.get("args")
    if schema is None:
        return PluginConfig(name, raw_args(args), raw=True)
    encoded = encode(args or {}, schema, keep_set=True)
    return PluginConfig(name, {**encoded, "apiVersion": API_VERSION, "kind": schema.name})


def raw_args(node: json_document.Node) -> Any:
    """The arguments of a plugin that is not in-tree, as in JSON."""
    return json_document.plain(node) if isinstance(node, Object | list | Number) else node


def _make_extender(value: Value) -> Extender:
    """Make an extender from its decoded fields; what is missing has its zero value."""
    tls = value.get("tlsConfig")
    return Extender(
        url_prefix=value.get("urlPrefix", ""),
        filter_verb=value.get("filterVerb", ""),
        preempt_verb=value.get("preemptVerb", ""),
        prioritize_verb=value.get("prioritizeVerb", ""),
        weight=value.get("weight", 0),
        bind_verb=value.get("bindVerb", ""),
        enable_https=value.get("enableHTTPS", False),
        tls_config=None if tls is None else _make_extender_tls(tls),
        http_timeout=value.get("httpTimeout", Duration()),
        node_cache_capable=value.get("nodeCacheCapable", False),
        managed_resources=tuple(
            ManagedResource(resource.get("name", ""), resource.get("ignoredByScheduler", False))
            for resource in value.get("managedResources") or ()
        ),
        ignorable=value.get("ignorable", False),
    )


def _make_extender_tls(value: Value) -> ClientTLS:
    """Make the TLS settings of an extender; what is missing has its zero value."""
    return ClientTLS(
        insecure=value.get("insecure", False),
        server_name=value.get("serverName", ""),
        cert_file=value.get("certFile", ""),
        key_file=value.get("keyFile", ""),
        ca_file=value.get("caFile", ""),
        cert_data=value.get("certData", b""),
        key_data=value.get("keyData", b""),
        ca_data=value.get("caData", b""),
    )


# Back.


def to_document(config: SchedulerConfiguration) -> dict[str, Any]:
    """The configuration as a KubeSchedulerConfiguration, ready for JSON or YAML."""
    client, election = config.client_connection, config.leader_election
    value = {
        "kind": KIND,
        "apiVersion": API_VERSION,
        "parallelism": config.parallelism,
        "leaderElection": {
            "leaderElect": election.leader_elect,
            "leaseDuration": election.lease_duration,
            "renewDeadline": election.renew_deadline,
            "retryPeriod": election.retry_period,
            "resourceLock": election.resource_lock,
            "resourceName": election.resource_name,
            "resourceNamespace": election.resource_namespace,
        },
        "clientConnection": {
            "kubeconfig": client.kubeconfig,
            "acceptContentTypes": client.accept_content_types,
            "contentType": client.content_type,
            "qps": client.qps,
            "burst": client.burst,
        },
        "enableProfiling": config.enable_profiling,
        "enableContentionProfiling": config.enable_contention_profiling,
        "percentageOfNodesToScore": config.percentage_of_nodes_to_score,
        "podInitialBackoffSeconds": config.pod_initial_backoff_seconds,
        "podMaxBackoffSeconds": config.pod_max_backoff_seconds,
        "profiles": [_encode_profile(profile) for profile in config.profiles],
        "extenders": [_encode_extender(extender) for extender in config.extenders],
        "delayCacheUntilActive": config.delay_cache_until_active,
    }
    return encode(value, CONFIGURATION)


def _encode_plugin_set(plugins: PluginSet) -> dict[str, Any]:
    """The plugins enabled and disabled at one point, as they are encoded."""
    return {
        name: None if entries is None else [{"name": plugin.name, "weight": plugin.weight} for plugin in entries]
        for name, entries in (("enabled", plugins.enabled), ("disabled", plugins.disabled))
    }


def _encode_profile(profile: Profile) -> dict[str, Any]:
    """The fields of a profile, as they are encoded."""
    plugins = {point.value: _encode_plugin_set(profile.plugins.at(point)) for point in ExtensionPoint}
    plugins[MULTI_POINT] = _encode_plugin_set(profile.plugins.multi_point)
    return {
        "schedulerName": profile.scheduler_name,
        "percentageOfNodesToScore": profile.percentage_of_nodes_to_score,
        "plugins": plugins,
        "pluginConfig": [{"name": config.name, "args": _encode_args(config)} for config in profile.plugin_config],
    }


def _encode_args(config: PluginConfig) -> Any:
    """The arguments of a plugin, as they are encoded."""
    schema = None if config.raw else ARGS.get(f"{config.name}Args")
    return encode(config.args, schema) if schema is not None else config.args


def _encode_extender(extender: Extender) -> dict[str, Any]:
    """The fields of an extender, as they are encoded."""
    tls = extender.tls_config
    return {
        "urlPrefix": extender.url_prefix,
        "filterVerb": extender.filter_verb,
        "preemptVerb": extender.preempt_verb,
        "prioritizeVerb": extender.prioritize_verb,
        "weight": extender.weight,
        "bindVerb": extender.bind_verb,
        "enableHTTPS": extender.enable_https,
        "tlsConfig": None
        if tls is None
        else {
            "insecure": tls.insecure,
            "serverName": tls.server_name,
            "certFile": tls.cert_file,
            "keyFile": tls.key_file,
            "caFile": tls.ca_file,
            "certData": tls.cert_data,
            "keyData": tls.key_data,
            "caData": tls.ca_data,
        },
        "httpTimeout": extender.http_timeout,
        "nodeCacheCapable": extender.node_cache_capable,
        "managedResources": [
            {"name": resource.name, "ignoredByScheduler": resource.ignored_by_scheduler}
            for resource in extender.managed_resources
        ],
        "ignorable": extender.ignorable,
    }
