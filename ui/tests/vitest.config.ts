// The page's tests in a browser, told of as cargo does. One file after the other: each has a control process of its own.
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import type { Reporter, TestCase, TestModule } from 'vitest/node';

/** What cargo's test programs print. Names of tests have no space in them. */
class AsCargo implements Reporter {
  #count = { passed: 0, failed: 0 };

  onTestCaseResult(test: TestCase): void {
    const { state, errors } = test.result();
    // Another one was asked for.
    if (state === 'pending' || state === 'skipped') return;
    const outcome = state === 'passed' ? 'passed' : 'failed';
    this.#count[outcome]++;
    console.log(`test ${test.name} ... ${outcome === 'passed' ? 'ok' : 'FAILED'}`);
    for (const error of errors ?? []) console.log(error.stack ?? error.message, error.diff ?? '');
  }

  /** A file that can't be loaded has no tests that could fail. */
  onTestModuleEnd(module: TestModule): void {
    for (const error of module.errors()) {
      this.#count.failed++;
      console.log(`test ${module.moduleId} ... FAILED\n${error.stack ?? error.message}`);
    }
  }

  onTestRunEnd(_: unknown, errors: readonly { stack?: string; message?: string }[]): void {
    for (const error of errors) console.log(error.stack ?? error.message);
    const failed = this.#count.failed + errors.length;
    console.log(`\ntest result: ${failed ? 'FAILED' : 'ok'}. ${this.#count.passed} passed; ${failed} failed;`);
  }
}

export default defineConfig({
  root: fileURLToPath(new URL('..', import.meta.url)),
  test: {
    include: ['tests/*.test.ts', 'src/**/*.test.ts'],
    testTimeout: 180_000,
    hookTimeout: 120_000,
    fileParallelism: false,
    reporters: [new AsCargo()],
    disableConsoleIntercept: true,
  },
});
