#!/usr/bin/env node
// What Grafana's own packages say of queries and dashboards.
//
//     echo '[["logql", "{a=\"b\"}"]]' | ./grafana trees
//
// prints one tree for each query, by the grammars of Grafana's query editors: [name, start, end, [children]]. Where the
// text does not fit the grammar there is a node whose name is "⚠".
//
//     ./grafana types < dashboard.json
//
// prints a list of what the types of @grafana/schema find wrong with a dashboard, the options of its panels included.
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

async function trees(asked) {
  const parsers = {
    logql: (await import("@grafana/lezer-logql")).parser,
    traceql: (await import("@grafana/lezer-traceql")).parser,
  };
  return asked.map(([language, text]) => plain(parsers[language].parse(text).topNode));
}

function plain(node) {
  const children = [];
  for (let child = node.firstChild; child; child = child.nextSibling) children.push(plain(child));
  return [node.name, node.from, node.to, children];
}

// Of these panels the package has the options; the view of a trace has none, a row neither.
const OPTIONS = {
  heatmap: "heatmap",
  logs: "logs",
  "state-timeline": "statetimeline",
  stat: "stat",
  table: "table",
  timeseries: "timeseries",
};
const WITHOUT = ["row", "traces"];

// An enum of strings is written as its text in JSON.
const PLAIN = `type Plain<T> = T extends string ? (string extends T ? string : \`\${T}\`)
  : T extends (infer U)[] ? Plain<U>[] : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;`;

async function types(dashboard) {
  const { default: ts } = await import("typescript");
  const raw = "@grafana/schema/dist/types/raw";
  const lines = [`import type { Dashboard } from "${raw}/dashboard/x/types.gen";`, PLAIN];
  const wrong = [];
  const panels = dashboard.panels.flatMap((panel) => [panel, ...(panel.panels ?? [])]);
  for (const kind of new Set(panels.map((panel) => panel.type))) {
    if (kind in OPTIONS) {
      lines.push(`import type * as ${OPTIONS[kind]} from "${raw}/composable/${OPTIONS[kind]}/panelcfg/x/types.gen";`);
    } else if (!WITHOUT.includes(kind)) wrong.push(`a panel of a kind that is not known here: ${kind}`);
  }
  // One declaration a line, so that the line of an error says which.
  const whose = { [declare("Plain<Dashboard>", dashboard)]: "the page" };
  for (const panel of panels.filter((panel) => panel.type in OPTIONS)) {
    const module = OPTIONS[panel.type];
    whose[declare(`Plain<${module}.Options>`, panel.options)] = panel.title;
    const custom = panel.fieldConfig.defaults.custom;
    if (custom) whose[declare(`Plain<Partial<${module}.FieldConfig>>`, custom)] = panel.title;
  }
  function declare(type, value) {
    lines.push(`export const a${lines.length}: ${type} = ${JSON.stringify(value)};`);
    return lines.join("\n").split("\n").length - 1;
  }

  const name = join(dirname(fileURLToPath(import.meta.url)), "dashboard.ts");
  const options = { strict: true, noEmit: true, skipLibCheck: true, target: ts.ScriptTarget.ES2022 };
  options.module = ts.ModuleKind.ESNext;
  options.moduleResolution = ts.ModuleResolutionKind.Node10;
  const host = ts.createCompilerHost(options);
  const { fileExists, getSourceFile } = host;
  host.fileExists = (path) => path === name || fileExists(path);
  host.getSourceFile = (path, ...rest) =>
    path === name ? ts.createSourceFile(path, lines.join("\n"), options.target) : getSourceFile(path, ...rest);
  for (const found of ts.getPreEmitDiagnostics(ts.createProgram([name], options, host))) {
    const at = found.file?.fileName === name ? whose[found.file.getLineAndCharacterOfPosition(found.start).line] : "";
    wrong.push(`${at}: ${ts.flattenDiagnosticMessageText(found.messageText, " ")}`);
  }
  return wrong;
}

const verbs = { trees, types };
const asked = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(await verbs[process.argv[2]](asked)));
