#!/usr/bin/env node
// Trees of LogQL and TraceQL by the grammars of Grafana's own query editors, which are Lezer's.
//
//     echo '[["logql", "{a=\"b\"}"]]' | ./grammars
//
// Prints one tree for each query: [name, start, end, [children]]. Where the text does not fit the grammar there is a
// node whose name is "⚠".
import { readFileSync } from "node:fs";
import { parser as logql } from "@grafana/lezer-logql";
import { parser as traceql } from "@grafana/lezer-traceql";

const parsers = { logql, traceql };

function plain(node) {
  const children = [];
  for (let child = node.firstChild; child; child = child.nextSibling) children.push(plain(child));
  return [node.name, node.from, node.to, children];
}

const asked = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(asked.map(([language, text]) => plain(parsers[language].parse(text).topNode))));
