import{a,b}from"./chunk-CNC226F4.js";import"./chunk-6VS5Q4OG.js";import"./chunk-WFONAVEO.js";import"./chunk-7VAX6LL7.js";export{b as default,a as nodeState};
