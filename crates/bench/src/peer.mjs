// Drives the published runtime for aos-bench: a request per line on stdin, an answer per line on
// stdout. Times are taken here, around the calls alone.

import { AgentOs } from "@rivet-dev/agentos-core";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const make = () => AgentOs.create({ defaultSoftware: true });

async function timed(work) {
    const start = performance.now();
    const result = await work();
    return [(performance.now() - start) / 1000, result];
}

async function run(vm, command, args) {
    const { exitCode, stdout, stderr } = await vm.execArgv(command, args);
    if (exitCode !== 0) throw new Error(`${command}: ${exitCode} ${stdout} ${stderr}`);
}

// Resident bytes of this process and all it has started.
function resident(pid = process.pid) {
    const read = (file) => readFileSync(`/proc/${pid}/${file}`, "utf8");
    const children = read(`task/${pid}/children`).split(" ").filter(Boolean);
    const own = Number(/^Rss:\s+(\d+)/m.exec(read("smaps_rollup"))[1]) * 1024;
    return children.reduce((sum, child) => sum + resident(child), own);
}

async function sleeper(command, args) {
    const vm = await make();
    await new Promise((ready) => {
        vm.spawn(command, args, { onStdout: ready });
    });
    return vm;
}

// Rejects when an answer is not to be expected any more.
function patience(seconds = 60) {
    return new Promise((_, reject) => {
        setTimeout(() => reject(`no answer within ${seconds} s`), seconds * 1000).unref();
    });
}

let warm;
const operations = {
    async create() {
        const [seconds, vm] = await timed(make);
        await vm.dispose();
        return { seconds };
    },
    async run({ command, arguments: args }) {
        warm ??= await make();
        const [seconds] = await timed(() => run(warm, command, args));
        return { seconds };
    },
    async sleepers({ count, command, arguments: args }) {
        const vms = [await sleeper(command, args)];
        const before = resident();
        for (let i = 0; i < count; i++) vms.push(await sleeper(command, args));
        const bytes = (resident() - before) / count;
        for (const vm of vms) await vm.dispose();
        return { bytes };
    },
};

if (process.argv[2] === "--once") {
    const vm = await make();
    await run(vm, process.argv[3], process.argv.slice(4));
    process.exit(0);
}
for await (const line of createInterface({ input: process.stdin })) {
    const request = JSON.parse(line);
    let answer;
    try {
        answer = await Promise.race([operations[request.op](request), patience()]);
    } catch (error) {
        answer = { error: String(error?.stack ?? error) };
    }
    process.stdout.write(`ANSWER ${JSON.stringify(answer)}\n`);
}
process.exit(0);
