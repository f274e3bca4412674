"""Puts another configuration in force while the frontend runs.

Everything is checked and prepared first: what fails until then leaves all as it was. The switch itself is one step of
the event loop between two scheduling cycles, so no cycle sees half of it. From then on every call names the hash of the
new configuration, and no replica of a phase answers before it has it. A standby switches in the same way, and leads by
the new configuration.
"""

import asyncio
import logging
from collections.abc import Callable

from trireme.config import commandline, reloading, trireme_configuration
from trireme.frontend import app as frontend_app
from trireme.frontend import (
    phase_configuration,
    plugin_discovery,
    plugin_monitor,
    prepared_plugins,
)
from trireme.registry.in_tree import IN_TREE
from trireme.remote import remote_client
from trireme.scheduling import scheduler_settings

log = logging.getLogger(__name__)

# How long the cycle under way may take to end, before the reload is refused.
CYCLE_SECONDS = 120.0


class Reconfiguration:
    """Puts configurations in force, one at a time."""

    def __init__(
        self,
        completed: commandline.CompletedConfig,
        app: frontend_app.App,
        monitor: plugin_monitor.PluginMonitor,
        configure_handle: Callable[[trireme_configuration.TriremeConfiguration], None] = lambda config: None,
        discovery: plugin_discovery.PluginDiscovery | None = None,
    ) -> None:
        """`configure_handle` has HandleService admit the configuration's plugins; `discovery` follows Services."""
        self._current = completed
        self._app = app
        self._monitor = monitor
        self._configure_handle = configure_handle
        self._discovery = discovery

    @property
    def current(self) -> commandline.CompletedConfig:
        """The configuration in force."""
        return self._current

    async def apply(self, new: commandline.CompletedConfig) -> None:
        """Put a checked configuration in force, as a whole.

        Raises: HandshakeError: a remote plugin refuses it or is not there, or the switch was not possible in time; the
            configuration before stays in force.
        """
        if self._discovery is not None:
            await self._discovery.follow(new.trireme)
        try:
            await self._apply(new)
        finally:
            if self._discovery is not None:
                self._discovery.follow_only(self._current.trireme)

    async def follow_addresses(self) -> None:
        """Have plugins that are found by a Service called at its endpoints of now."""
        await self._monitor.follow_addresses()
        self._app.plugin_updates.follow_addresses(self._monitor.infos())

    async def _apply(self, new: commandline.CompletedConfig) -> None:
        """As `apply`, once the Services of the configuration's plugins are followed."""
        async with self._monitor.lock:
            # Which of the profiles that the new configuration lacks are in use is known at the switch.
            maybe_in_use = frozenset(profile.scheduler_name for profile in self._current.profiles)
            prepared = await self._monitor.prepare(reloading.with_retired_profiles(new, self._current, maybe_in_use))
            try:
                await self._read_fields_of_new_plugins(new, prepared)
                known = self._app.scheduling.handlers.pods.profiles
                shares_differ = await self._switch_between_cycles(new, prepared)
            except BaseException:
                await self._monitor.discard(prepared)
                raise
        if shares_differ or new.scheduler_names - known:
            # A canary's pods are a class of their own. Pods of a profile which is new have been seen, and ignored.
            await self._list_pods_again(new.trireme.reload.list_deadline.seconds)

    async def _list_pods_again(self, seconds: float) -> None:
        """List pods again, so that they get their classes, and try those again that were refused as another class.

        It returns when that is done, or takes more than `seconds`; it is done then once the API server answers.
        """
        done = asyncio.Event()

        async def list_then_retry() -> None:
            await self._app.plugin_updates.list_pods_again()
            self._app.queue_changes.retry_all()
            done.set()

        self._monitor.background.start(list_then_retry())
        try:
            async with asyncio.timeout(seconds):
                await done.wait()
        except TimeoutError:
            log.warning("pods of a new profile or share are not listed yet; they are tried once the API server answers")

    async def _read_fields_of_new_plugins(
        self, new: commandline.CompletedConfig, prepared: prepared_plugins.PreparedPlugins
    ) -> None:
        """Read of pods and nodes what the new plugins read. Raises: HandshakeError: the API server does not answer."""
        seconds = new.trireme.reload.list_deadline.seconds
        fields = IN_TREE.pod_fields({name for profile in new.profiles for name in profile.all_names()})
        try:
            async with asyncio.timeout(seconds):
                await self._app.plugin_updates.read_more(prepared.infos(), fields)
        except TimeoutError as error:
            raise remote_client.HandshakeError(
                f"profiles: their plugins read more of pods, which were not listed again within {seconds:g} s "
                "(reload.listDeadline): raise that"
            ) from error

    async def _switch_between_cycles(
        self, new: commandline.CompletedConfig, prepared: prepared_plugins.PreparedPlugins
    ) -> bool:
        """Switch as soon as no cycle is under way; returns whether shares of canaries differ.

        Raises: HandshakeError: a cycle does not end.
        """
        scheduling = self._app.scheduling
        try:
            async with asyncio.timeout(CYCLE_SECONDS) as waiting, scheduling.scheduler.between_cycles():
                waiting.reschedule(None)
                in_use = scheduling.binding.profiles_in_use()
                completed = reloading.with_retired_profiles(new, self._current, in_use)
                self._monitor.commit(prepared, completed)
                return self._switch(completed)
        except TimeoutError as error:
            raise remote_client.HandshakeError(
                f"the scheduling cycle under way has not ended for {CYCLE_SECONDS:g} s: see `trireme status` for the "
                "phase that does not answer"
            ) from error

    def _switch(self, completed: commandline.CompletedConfig) -> bool:
        """Have all parts follow the configuration, in one step; returns whether shares of canaries differ."""
        app, infos = self._app, self._monitor.infos()
        context, scheduling, phases = app.context, app.scheduling, app.phases
        self._current = completed
        configuration = phase_configuration.make_configuration(completed, infos)
        changed = context.settings.replace(configuration)
        context.metrics.set_profiles(completed.profiles)
        context.membership.configure(completed, infos)
        shares_differ = app.plugin_updates.configure(completed)
        self._configure_handle(completed.trireme)
        scheduling.configure(scheduler_settings.of_configuration(completed))
        app.queue_changes.configure(completed, configuration)
        if changed:
            named = frozenset(name for profile in completed.profiles for name in profile.all_names())
            scheduling.waiting.forget_plugins(named.__contains__)
            phases.answers.clear()
            scheduling.scheduler.forget_prepared()
            if context.leader.leading:
                phases.streams.configure(configuration, context.membership.is_rejected)
            phases.links.restart()
            app.queue_changes.retry_all()
        context.wakeup.set()
        return shares_differ
