// Also change: internal/trireme/sdk/configuring.py (which names the other languages' files).

/** A profile's arguments (`pluginConfig[].args`), read with every mistake reported by its path. */

/** One mistake: the path of the field from `args` on, and what is wrong in one line. */
export interface Problem {
  readonly field: string;
  readonly message: string;
}

/** Thrown by `configure`: the scheduler refuses the configuration and shows these problems unchanged. */
export class InvalidArguments extends Error {
  readonly problems: readonly Problem[];

  constructor(...problems: Problem[]) {
    super(problems.map((problem) => `${problem.field}: ${problem.message}`).join(", "));
    this.name = "InvalidArguments";
    this.problems = problems;
  }
}

/** A check of a value: the text of what is wrong, or nothing. */
export type Check<T> = (value: T) => string | undefined;

/**
 * Reads the fields of an object of arguments.
 *
 * Each method reads one field, returns its default where it is missing or wrong, and remembers what is wrong. `finish`
 * throws all of it at once, unknown fields included.
 */
export class ArgumentReader {
  private readonly object: Record<string, unknown>;
  private readonly known = new Set<string>();
  private readonly problems: Problem[];

  constructor(
    args: unknown,
    private readonly path = "args",
    problems: Problem[] = [],
  ) {
    this.problems = problems;
    if (typeof args === "object" && args !== null && !Array.isArray(args)) {
      this.object = args as Record<string, unknown>;
    } else {
      this.object = {};
      this.problems.push({ field: path, message: "must be an object" });
    }
  }

  /** A text. */
  string(name: string, fallback: string, check?: Check<string>): string {
    return this.read(name, fallback, (value) => typeof value === "string", "must be a text", check);
  }

  /** A number within limits, both included. */
  number(name: string, fallback: number, limits: { min?: number; max?: number; integer?: boolean } = {}): number {
    const kind = limits.integer ? "a whole number" : "a number";
    const min = limits.min ?? -Infinity;
    const max = limits.max ?? Infinity;
    const range = Number.isFinite(max) ? ` from ${min} to ${max}` : Number.isFinite(min) ? ` of at least ${min}` : "";
    const fits = (value: unknown): value is number =>
      typeof value === "number" && value >= min && value <= max && (!limits.integer || Number.isInteger(value));
    return this.read(name, fallback, fits, `must be ${kind}${range}`);
  }

  /** True or false. */
  boolean(name: string, fallback: boolean): boolean {
    return this.read(name, fallback, (value) => typeof value === "boolean", "must be true or false");
  }

  /** A list of texts. */
  strings(name: string, fallback: readonly string[] = []): readonly string[] {
    const fits = (value: unknown): value is string[] =>
      Array.isArray(value) && value.every((each) => typeof each === "string");
    return this.read<readonly string[]>(name, fallback, fits, "must be a list of texts");
  }

  /** The reader of an object within; an empty one where it is missing. Its problems are reported by this one. */
  section(name: string): ArgumentReader {
    this.known.add(name);
    return new ArgumentReader(this.object[name] ?? {}, `${this.path}.${name}`, this.problems);
  }

  /** Reports a mistake that a single field does not show. */
  reject(name: string, message: string): void {
    this.problems.push({ field: `${this.path}.${name}`, message });
  }

  /** Throws InvalidArguments if anything is wrong, or a field is unknown. */
  finish(): void {
    this.rejectUnknown();
    if (this.problems.length > 0) throw new InvalidArguments(...this.problems);
  }

  /** Reports the fields that nobody read; for the reader of an object within, whose owner calls `finish`. */
  rejectUnknown(): void {
    for (const name of Object.keys(this.object)) {
      if (!this.known.has(name)) this.reject(name, "unknown field");
    }
  }

  private read<T>(
    name: string,
    fallback: T,
    fits: (value: unknown) => boolean,
    message: string,
    check?: Check<T>,
  ): T {
    this.known.add(name);
    if (!Object.hasOwn(this.object, name)) return fallback;
    const value = this.object[name];
    const problem = fits(value) ? check?.(value as T) : message;
    if (problem === undefined) return value as T;
    this.reject(name, problem);
    return fallback;
  }
}
