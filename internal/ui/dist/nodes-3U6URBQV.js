import{a,b}from"./chunk-BUSMM7E3.js";import"./chunk-ZP5RKHAK.js";import"./chunk-3XP7PTFX.js";import"./chunk-2XGBM4SG.js";export{b as default,a as nodeState};
