// The story that every client tells, with @kubernetes/client-node: see run_clients.py.
import assert from 'node:assert/strict';
import * as k8s from '@kubernetes/client-node';

const namespace = 'client-javascript';
const config = new k8s.KubeConfig();
config.loadFromDefault(); // refuses plain HTTP that the kubeconfig does not allow
const core = config.makeApiClient(k8s.CoreV1Api);
const apps = config.makeApiClient(k8s.AppsV1Api);
const extensions = config.makeApiClient(k8s.ApiextensionsV1Api);
const custom = config.makeApiClient(k8s.CustomObjectsApi);
const merge = k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.MergePatch);

async function until(what, check) {
  for (const end = Date.now() + 60_000; Date.now() < end; ) {
    if (await check()) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`not within a minute: ${what}`);
}

assert.equal((await core.listNode()).items.length, 3);
await core.createNamespace({ body: { metadata: { name: namespace } } });

const running = new Set();
const informer = k8s.makeInformer(config, `/api/v1/namespaces/${namespace}/pods`, () =>
  core.listNamespacedPod({ namespace }),
);
const look = (pod) => running[pod.status?.phase === 'Running' ? 'add' : 'delete'](pod.metadata.name);
informer.on('add', look);
informer.on('update', look);
informer.on('delete', (pod) => running.delete(pod.metadata.name));
await informer.start();

const labels = { app: 'web' };
const container = { name: 'c', image: 'example.com/web' };
await apps.createNamespacedDeployment({
  namespace,
  body: {
    metadata: { name: 'web' },
    spec: {
      replicas: 2,
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers: [container] } },
    },
  },
});
await until('two pods run', () => running.size === 2);
await apps.patchNamespacedDeploymentScale({ name: 'web', namespace, body: { spec: { replicas: 3 } } }, merge);
await until('three pods run', () => running.size === 3);
const [name] = running;
assert.match(await core.readNamespacedPodLog({ name, namespace }), /is simulated/);

const group = 'javascript.clients.example.com';
const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } };
await extensions.createCustomResourceDefinition({
  body: {
    metadata: { name: `things.${group}` },
    spec: {
      group,
      scope: 'Namespaced',
      names: { plural: 'things', kind: 'Thing' },
      versions: [{ name: 'v1', served: true, storage: true, schema, subresources: { status: {} } }],
    },
  },
});
await until('the definition is established', async () => {
  const found = await extensions.readCustomResourceDefinition({ name: `things.${group}` });
  return found.status?.conditions?.some((one) => one.type === 'Established' && one.status === 'True');
});
const thing = { group, version: 'v1', namespace, plural: 'things' };
const body = { apiVersion: `${group}/v1`, kind: 'Thing', metadata: { name: 'a' }, spec: { size: 1 } };
await custom.createNamespacedCustomObject({ ...thing, body });
await custom.patchNamespacedCustomObjectStatus({ ...thing, name: 'a', body: { status: { ready: true } } }, merge);
const stored = await custom.getNamespacedCustomObject({ ...thing, name: 'a' });
assert.deepEqual([stored.spec, stored.status], [{ size: 1 }, { ready: true }]);
await extensions.deleteCustomResourceDefinition({ name: `things.${group}` });

await core.deleteNamespace({ name: namespace });
await until('all pods are gone', () => running.size === 0);
await informer.stop();
