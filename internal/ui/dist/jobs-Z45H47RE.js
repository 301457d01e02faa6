import{a,b,c,d,e}from"./chunk-ZP5RKHAK.js";import"./chunk-3XP7PTFX.js";import"./chunk-2XGBM4SG.js";export{e as Choice,d as default,c as jobState,b as squaresOf,a as sumOf};
