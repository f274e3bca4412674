// Numbers, amounts and times as text.

export function count(value: number): string {
  return value.toLocaleString("en-US");
}

export function plural(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

export function rate(value: number): string {
  return value >= 100 ? count(Math.round(value)) : value >= 10 ? value.toFixed(0) : value.toFixed(1);
}

export function seconds(value: number | null): string {
  if (value === null) return "–";
  if (value < 0.001) return `${(value * 1e6).toFixed(0)} µs`;
  if (value < 1) return `${(value * 1000).toPrecision(value < 0.01 ? 2 : 3).replace(/\.0+$/, "")} ms`;
  return value < 60 ? `${value.toFixed(1)} s` : age(value * 1000);
}

export function age(milliseconds: number): string {
  const total = Math.max(Math.floor(milliseconds / 1000), 0);
  const [minutes, hours, days] = [Math.floor(total / 60), Math.floor(total / 3600), Math.floor(total / 86400)];
  if (total < 120) return `${total}s`;
  if (minutes < 10) return total % 60 ? `${minutes}m${total % 60}s` : `${minutes}m`;
  if (hours < 3) return `${minutes}m`;
  if (hours < 48) return `${hours}h`;
  return `${days}d`;
}

export function timeOfDay(milliseconds: number): string {
  return new Date(milliseconds).toLocaleTimeString("en-GB", { hour12: false });
}

export function preciseTime(milliseconds: number): string {
  return `${timeOfDay(milliseconds)}.${String(Math.floor(milliseconds) % 1000).padStart(3, "0")}`;
}

const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];

function bytes(value: number): string {
  let unit = 0;
  while (value >= 1024 && unit < BINARY.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value >= 100 || Number.isInteger(value) ? value.toFixed(0) : value.toFixed(1)}${BINARY[unit]}`;
}

// An amount of a resource; CPU is in millicores.
export function amount(resource: string, value: number): string {
  if (resource === "cpu") return value % 1000 && value < 100_000 ? `${value}m` : count(Math.round(value / 1000));
  if (resource === "memory" || resource === "ephemeral-storage" || resource.startsWith("hugepages-"))
    return bytes(value);
  return count(value);
}

// The same with its unit, e.g. 8 CPUs, 500m CPU, 16Gi memory, 110 pods.
export function amountWithUnit(resource: string, value: number): string {
  if (resource !== "cpu") return `${amount(resource, value)} ${resource}`;
  return quantityText(resource, `${value}m`);
}

// A quantity of a resource with its unit, as amount_words.py writes it, e.g. 1,000 CPUs, 500m CPU, 4Gi memory, 2 nvidia.com/gpu.
export function quantityText(resource: string, text: string): string {
  const value = quantityNumber(resource, text);
  if (resource !== "cpu") return `${value} ${resource}`;
  return `${value} ${value === "1" || value.endsWith("m") ? "CPU" : "CPUs"}`;
}

const THOUSANDS: Record<string, number> = { "": 1, m: 1e-3, k: 1e3, M: 1e6, G: 1e9 };

// The same without its unit.
export function quantityNumber(resource: string, text: string): string {
  const inBytes = resource === "memory" || resource === "ephemeral-storage" || resource.startsWith("hugepages-");
  const parts = /^([0-9.]+)([mkMG]?)$/.exec(text);
  if (!parts || inBytes) return text;
  const number = Number(parts[1]) * THOUSANDS[parts[2] ?? ""]!;
  if (resource === "cpu" && number < 1 && number > 0) return text;
  return number.toLocaleString("en-US", { maximumFractionDigits: 3 });
}

export function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

export function taintText(taint: { key: string; value: string; effect: string }): string {
  return `${taint.key}${taint.value ? `=${taint.value}` : ""}:${taint.effect}`;
}

// The address of a pod's page.
export function podHref(namespace: string, name: string): string {
  return `#/pods/${namespace}/${name}`;
}

export function nodeHref(name: string): string {
  return `#/nodes/${name}`;
}
