// Also change: internal/trireme/remote/remote_breaker.py (states of a circuit breaker).
// Also change: internal/trireme/insight/console/views.py (the path of the document).
// The scheduler itself: its leader, the replicas of its phases, remote plugins and their circuit breakers.
import { useView } from "../api.ts";
import type { Components, Plugin, Replica } from "../documents.ts";
import { count, plural, seconds } from "../format.ts";
import { Answer, Empty, Panel, Pill, Waiting, type Tone } from "../parts.tsx";

const BREAKERS: Record<string, Tone> = { closed: "ok", "half-open": "warn", open: "bad" };

function standing(replica: Replica): { tone: Tone; text: string } {
  if (!replica.inStep) return { tone: "bad", text: "not in step" };
  if (replica.standsIn) return { tone: "warn", text: "stands in" };
  return { tone: "ok", text: replica.behind > 0 ? `in step, ${count(replica.behind)} behind` : "in step" };
}

function Replicas({ replicas }: { replicas: Replica[] }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Replicas of the phases">
      <table class="plain">
        <thead>
          <tr>
            <th scope="col">Phase</th>
            <th scope="col">State</th>
            <th scope="col">Address</th>
            <th scope="col" class="number extra">
              Backlog
            </th>
            <th scope="col" class="number extra">
              Full syncs
            </th>
            <th scope="col" class="number extra">
              Calls
            </th>
            <th scope="col">Last error</th>
          </tr>
        </thead>
        <tbody>
          {replicas.map((replica) => {
            const { tone, text } = standing(replica);
            const binds = replica.phase === "bind";
            return (
              <tr key={`${replica.phase} ${replica.address}`}>
                <th scope="row">{replica.phase}</th>
                <td>
                  <Pill tone={tone}>{text}</Pill>
                </td>
                <td class="address">{replica.address}</td>
                <td class="number extra">{binds ? "–" : `${count(replica.backlogBytes)} B`}</td>
                <td class="number extra">{binds ? "–" : count(replica.fullSyncs)}</td>
                <td class="number extra">{binds ? count(replica.callsInFlight) : "–"}</td>
                <td class="message">{replica.lastError || "–"}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function Plugins({ plugins }: { plugins: Plugin[] }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Remote plugins">
      <table class="plain">
        <thead>
          <tr>
            <th scope="col">Plugin</th>
            <th scope="col">Health</th>
            <th scope="col">Breaker</th>
            <th scope="col" class="number">
              Calls
            </th>
            <th scope="col" class="number">
              Failed
            </th>
            <th scope="col" class="number">
              p99
            </th>
            <th scope="col" class="extra">
              On failure
            </th>
            <th scope="col" class="extra">
              Version
            </th>
            <th scope="col" class="extra">
              Address
            </th>
            <th scope="col">Problem</th>
          </tr>
        </thead>
        <tbody>
          {plugins.map((plugin) => (
            <tr key={plugin.name}>
              <th scope="row">{plugin.name}</th>
              <td>
                <Pill tone={plugin.health === "ok" ? "ok" : "bad"}>{plugin.health}</Pill>
              </td>
              <td>
                <Pill tone={BREAKERS[plugin.breaker] ?? "warn"}>{plugin.breaker}</Pill>
              </td>
              <td class="number">{count(plugin.calls)}</td>
              <td class="number">{count(plugin.failedCalls)}</td>
              <td class="number">{seconds(plugin.p99Seconds)}</td>
              <td class="extra">{plugin.failurePolicy}</td>
              <td class="extra">{plugin.version || "–"}</td>
              <td class="extra address">{plugin.address}</td>
              <td class="message">{plugin.problem || "–"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function health(data: Components): string {
  const behind = data.replicas.filter((replica) => !replica.inStep).length;
  const failing = data.plugins.filter((plugin) => plugin.health !== "ok").length;
  if (!behind && !failing) return "A leader schedules, and all replicas and plugins answer.";
  return `${count(behind)} of ${plural(data.replicas.length, "replica")} not in step, ${count(failing)} of ${plural(data.plugins.length, "plugin")} not well.`;
}

export function ComponentsView() {
  const { data, error } = useView<Components>("v1/components", 1500);
  return (
    <>
      <h1>Scheduler</h1>
      {!data && <Waiting error={error} />}
      {data && !data.reportsScheduler && (
        <Empty title="The scheduler has not reported yet">A frontend older than this insight does not say how its replicas are.</Empty>
      )}
      {data && data.reportsScheduler && (
        <>
          <Answer>{health(data)}</Answer>
          <dl class="facts">
            <div>
              <dt>Leader</dt>
              <dd>{data.leader}</dd>
            </div>
            <div>
              <dt>Lease</dt>
              <dd>{data.lease}</dd>
            </div>
            <div>
              <dt>Version</dt>
              <dd>{data.version}</dd>
            </div>
            <div>
              <dt>Generation</dt>
              <dd>{count(data.generation)}</dd>
            </div>
          </dl>
          <Panel title="Replicas" note={plural(data.replicas.length, "replica")}>
            <Replicas replicas={data.replicas} />
          </Panel>
          <Panel title="Remote plugins" note={plural(data.plugins.length, "plugin")}>
            {data.plugins.length ? (
              <Plugins plugins={data.plugins} />
            ) : (
              <Empty title="No remote plugins">A profile names them; their calls and circuit breakers appear here.</Empty>
            )}
          </Panel>
        </>
      )}
    </>
  );
}
